//go:build tools

// Package tools pins the program that hack/oracles/kustomize builds.
package tools

import _ "sigs.k8s.io/kustomize/kustomize/v5"
