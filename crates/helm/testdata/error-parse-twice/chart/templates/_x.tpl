{{ define "a" }}1{{ end }}{{ define "a" }}2{{ end }}
