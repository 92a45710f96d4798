{{ define "name" }}root-b{{ end }}{{ define "blank" }}{{/* nothing */}} {{ end }}
