//go:build tools

// Package tools pins kwok, which plays nodes and pods in the test bed.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
