//! The crate against a real API server, named by `TIPHYS_TEST_KUBECONFIG`; without it every test says so and passes.

mod index;
mod measure;
mod support;
mod write;
