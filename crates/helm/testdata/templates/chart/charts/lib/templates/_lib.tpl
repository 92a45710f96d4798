{{ define "lib" }}lib {{ .Values.zero }}{{ end }}
