{{ define "a" }}
{{ fail "from inside" }}{{ end }}