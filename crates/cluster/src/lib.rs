//! Talks to Kubernetes: discovery, watch index, apply, prune.
