{{ define "name" }}deep{{ end }}{{ define "only-deep" }}{{ . }}{{ end }}
