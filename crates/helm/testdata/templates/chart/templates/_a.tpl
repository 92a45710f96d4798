{{ define "name" }}root-a{{ end }}{{ define "who" }}root{{ end }}{{ define "blank" }}kept{{ end }}
