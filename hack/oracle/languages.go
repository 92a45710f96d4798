package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"oracle/pipe"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/bmatcuk/doublestar/v4"
	"github.com/gobwas/glob"
	"github.com/google/shlex"
	"github.com/kballard/go-shellquote"
	"github.com/robfig/cron/v3"
	"github.com/valyala/fasttemplate"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

type object = map[string]any

type patternInput struct{ Pattern, Text string }

func init() {
	pipe.Register("go.glob", func(in struct{ Pattern, Text, Separators string }) (any, error) {
		g, err := glob.Compile(in.Pattern, []rune(in.Separators)...)
		if err != nil {
			return nil, err
		}
		return object{"matches": g.Match(in.Text)}, nil
	})
	pipe.Register("go.doublestar", func(in patternInput) (any, error) {
		if !doublestar.ValidatePattern(in.Pattern) {
			return nil, doublestar.ErrBadPattern
		}
		matches, err := doublestar.Match(in.Pattern, in.Text)
		return object{"matches": matches}, err
	})
	pipe.Register("go.path_match", func(in patternInput) (any, error) {
		matches, err := path.Match(in.Pattern, in.Text)
		return object{"matches": matches}, err
	})
	pipe.Register("go.regexp", func(in struct{ Pattern, Text, Replacement string }) (any, error) {
		re, err := regexp.Compile(in.Pattern)
		if err != nil {
			return nil, err
		}
		return object{"groups": re.FindStringSubmatch(in.Text), "replaced": re.ReplaceAllString(in.Text, in.Replacement)}, nil
	})
	pipe.Register("go.semver", func(in struct{ Constraint, Version string }) (any, error) {
		c, err := semver.NewConstraint(in.Constraint)
		if err != nil {
			return nil, err
		}
		v, err := semver.NewVersion(in.Version)
		if err != nil {
			return nil, err
		}
		return object{"matches": c.Check(v)}, nil
	})
	pipe.Register("go.semver_max", semverMax)
	pipe.Register("go.duration", func(in struct{ Text string }) (any, error) {
		d, err := time.ParseDuration(in.Text)
		return object{"nanoseconds": int64(d), "string": d.String()}, err
	})
	pipe.Register("go.time", readTime)
	pipe.Register("go.cron", nextTimes)
	pipe.Register("go.shlex", func(in struct{ Text, Library string }) (any, error) {
		split := shlex.Split
		if in.Library == "shellquote" {
			split = shellquote.Split
		}
		words, err := split(in.Text)
		if words == nil {
			words = []string{}
		}
		return object{"words": words}, err
	})
	pipe.Register("go.fasttemplate", fillIn)
	pipe.Register("go.yaml_to_json", yamlToJSON)
	pipe.Register("go.json_to_yaml", func(in struct{ JSON string }) (any, error) {
		decoder := json.NewDecoder(strings.NewReader(in.JSON))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		if _, err := decoder.Token(); err != io.EOF {
			return nil, errors.New("more than one document")
		}
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		// Some keys have no order that is one, and then it depends on that of a map, which Go shuffles.
		for range 24 {
			if again, err := yaml.Marshal(value); err != nil || !bytes.Equal(again, text) {
				return nil, errors.New("oracle: not the same every time")
			}
		}
		return object{"yaml": string(text)}, nil
	})
}

func semverMax(in struct {
	Constraint string
	Versions   []string
}) (any, error) {
	c, err := semver.NewConstraint(in.Constraint)
	if err != nil {
		return nil, err
	}
	var best *semver.Version
	var text any
	for _, written := range in.Versions {
		v, err := semver.NewVersion(written)
		if err == nil && c.Check(v) && (best == nil || v.GreaterThan(best)) {
			best, text = v, written
		}
	}
	return object{"version": text}, nil
}

func readTime(in struct{ Text, Layout, OutLayout, TimeZone string }) (any, error) {
	if in.Layout == "" {
		in.Layout = time.RFC3339
	}
	if in.OutLayout == "" {
		in.OutLayout = time.RFC3339Nano
	}
	zone, err := time.LoadLocation(in.TimeZone)
	if err != nil {
		return nil, err
	}
	t, err := time.Parse(in.Layout, in.Text)
	if err != nil {
		return nil, err
	}
	return object{"text": t.In(zone).Format(in.OutLayout), "unixNanoseconds": t.UnixNano()}, nil
}

func nextTimes(in struct {
	Schedule, TimeZone, After string
	Count                     *int
}) (any, error) {
	zone, err := time.LoadLocation(in.TimeZone)
	if err != nil {
		return nil, err
	}
	after, err := time.Parse(time.RFC3339, in.After)
	if err != nil {
		return nil, err
	}
	schedule, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(in.Schedule)
	if err != nil {
		return nil, err
	}
	count, next := 4, []string{}
	if in.Count != nil {
		count = *in.Count
	}
	for t := after.In(zone); len(next) < count; {
		if t = schedule.Next(t); t.IsZero() {
			break
		}
		next = append(next, t.UTC().Format(time.RFC3339))
	}
	return object{"next": next}, nil
}

func fillIn(in struct {
	Template         string
	Values           map[string]string
	StartTag, EndTag *string
}) (any, error) {
	start, end := "{{", "}}"
	if in.StartTag != nil {
		start = *in.StartTag
	}
	if in.EndTag != nil {
		end = *in.EndTag
	}
	template, err := fasttemplate.NewTemplate(in.Template, start, end)
	if err != nil {
		return nil, err
	}
	var known = func(tag string) string {
		if value, found := in.Values[strings.TrimSpace(tag)]; found {
			return value
		}
		return start + tag + end
	}
	return object{"output": template.ExecuteFuncString(func(w io.Writer, tag string) (int, error) {
		return w.Write([]byte(known(tag)))
	})}, nil
}

func yamlToJSON(in struct{ Text, Dialect string }) (any, error) {
	if in.Dialect != "v3" {
		text, err := yaml.YAMLToJSON([]byte(in.Text))
		return object{"json": string(text)}, err
	}
	var value any
	if err := yamlv3.Unmarshal([]byte(in.Text), &value); err != nil {
		return nil, err
	}
	value, err := textKeys(value)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(value)
	return object{"json": strings.TrimSuffix(text.String(), "\n")}, err
}

// textKeys gives keys that are no text the text Go prints for them; null is no key.
func textKeys(value any) (any, error) {
	switch value := value.(type) {
	case map[any]any:
		texts := object{}
		for key, item := range value {
			if key == nil {
				return nil, errors.New("a key is null")
			}
			item, err := textKeys(item)
			if err != nil {
				return nil, err
			}
			texts[fmt.Sprint(key)] = item
		}
		return texts, nil
	case map[string]any:
		for key, item := range value {
			item, err := textKeys(item)
			if err != nil {
				return nil, err
			}
			value[key] = item
		}
	case []any:
		for at, item := range value {
			item, err := textKeys(item)
			if err != nil {
				return nil, err
			}
			value[at] = item
		}
	}
	return value, nil
}
