{{- define "data.where" }}{{ .Template.Name }} below {{ .Template.BasePath }}{{ end }}
