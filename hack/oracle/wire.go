package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"oracle/pipe"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Messages as the descriptors of the last wire.schema describe them.
var files *protoregistry.Files

func dynamic(name string) (*dynamicpb.Message, error) {
	if files == nil {
		return nil, errors.New("oracle: no schema")
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, err
	}
	message, ok := found.(protoreflect.MessageDescriptor)
	if !ok {
		return nil, fmt.Errorf("oracle: %s is no message", name)
	}
	return dynamicpb.NewMessage(message), nil
}

// A generated type of Kubernetes.
type generated interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

var kubernetes = map[string]func() generated{
	"k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta":               func() generated { return &metav1.ObjectMeta{} },
	"k8s.io.apimachinery.pkg.apis.meta.v1.ListMeta":                 func() generated { return &metav1.ListMeta{} },
	"k8s.io.apimachinery.pkg.apis.meta.v1.OwnerReference":           func() generated { return &metav1.OwnerReference{} },
	"k8s.io.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry":       func() generated { return &metav1.ManagedFieldsEntry{} },
	"k8s.io.apimachinery.pkg.apis.meta.v1.LabelSelector":            func() generated { return &metav1.LabelSelector{} },
	"k8s.io.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement": func() generated { return &metav1.LabelSelectorRequirement{} },
	"k8s.io.apimachinery.pkg.apis.meta.v1.GroupKind":                func() generated { return &metav1.GroupKind{} },
	"k8s.io.apimachinery.pkg.apis.meta.v1.Time":                     func() generated { return &metav1.Time{} },
	"k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime":                func() generated { return &metav1.MicroTime{} },
	"k8s.io.apimachinery.pkg.util.intstr.IntOrString":               func() generated { return &intstr.IntOrString{} },
	"k8s.io.apimachinery.pkg.runtime.RawExtension":                  func() generated { return &runtime.RawExtension{} },
	"k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": func() generated { return &apiextensionsv1.JSON{} },
	"k8s.io.api.core.v1.NodeSystemInfo":                             func() generated { return &corev1.NodeSystemInfo{} },
	"k8s.io.api.core.v1.LoadBalancerIngress":                        func() generated { return &corev1.LoadBalancerIngress{} },
	"k8s.io.api.core.v1.PortStatus":                                 func() generated { return &corev1.PortStatus{} },
	"events.Event":                                                  func() generated { return &corev1.Event{} },
	"events.EventList":                                              func() generated { return &corev1.EventList{} },
	"events.ObjectReference":                                        func() generated { return &corev1.ObjectReference{} },
}

func init() {
	// Takes an encoded FileDescriptorSet; protodesc checks it as protoc would.
	pipe.Register("wire.schema", func(in struct{ Hex string }) (any, error) {
		raw, err := hex.DecodeString(in.Hex)
		if err != nil {
			return nil, err
		}
		set := &descriptorpb.FileDescriptorSet{}
		if err := proto.Unmarshal(raw, set); err != nil {
			return nil, err
		}
		files, err = protodesc.NewFiles(set)
		if err != nil {
			return nil, err
		}
		return files.NumFiles(), nil
	})
	// Reads bytes as a message; answers with its protojson and with the bytes that the library itself writes.
	pipe.Register("wire.decode", func(in struct{ Message, Hex string }) (any, error) {
		raw, err := hex.DecodeString(in.Hex)
		if err != nil {
			return nil, err
		}
		message, err := dynamic(in.Message)
		if err != nil {
			return nil, err
		}
		// What is required is not asked for: the product decides that per call.
		if err := (proto.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true}).Unmarshal(raw, message); err != nil {
			return nil, err
		}
		text, err := (protojson.MarshalOptions{AllowPartial: true, UseProtoNames: true}).Marshal(message)
		if err != nil {
			return nil, err
		}
		again, err := (proto.MarshalOptions{AllowPartial: true, Deterministic: true}).Marshal(message)
		if err != nil {
			return nil, err
		}
		return map[string]any{"json": json.RawMessage(text), "hex": hex.EncodeToString(again)}, nil
	})
	// Reads JSON into a type of Kubernetes; answers with its bytes and its own JSON.
	pipe.Register("wire.kubernetes", func(in struct {
		Message string
		Value   json.RawMessage
		Hex     string
	}) (any, error) {
		make, found := kubernetes[in.Message]
		if !found {
			return nil, errors.New("oracle: no type of Kubernetes: " + in.Message)
		}
		object := make()
		if in.Value != nil {
			if err := json.Unmarshal(in.Value, object); err != nil {
				return nil, err
			}
		} else {
			raw, err := hex.DecodeString(in.Hex)
			if err != nil {
				return nil, err
			}
			if err := object.Unmarshal(raw); err != nil {
				return nil, err
			}
		}
		raw, err := object.Marshal()
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		return map[string]any{"json": json.RawMessage(text), "hex": hex.EncodeToString(raw)}, nil
	})
}
