{{ define "name" }}sub{{ end }}{{ define "who" }}sub{{ end }}{{ define "sub-only" }}{{ .Values.x }}{{ end }}
