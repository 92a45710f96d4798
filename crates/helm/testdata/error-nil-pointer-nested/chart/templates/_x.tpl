{{ define "a" }}{{ include "b" . }}{{ end }}
{{ define "b" }}
{{ .Values.a.b }}{{ end }}