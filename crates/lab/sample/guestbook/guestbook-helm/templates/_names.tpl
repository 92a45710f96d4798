{{- define "guestbook.labels" -}}
app: {{ .Release.Name }}
{{- end }}
