package main

import (
	"errors"
	"fmt"
	"math"
	"oracle/pipe"
	"reflect"
	"strings"
	"time"

	"github.com/expr-lang/expr"
)

type exprInput struct {
	Expression string
	Env        object
}

func init() {
	// As a trigger of notifications runs it: no environment is declared, and types of literals are checked.
	pipe.Register("go.expr", func(in exprInput) (any, error) {
		program, err := expr.Compile(in.Expression)
		if err != nil {
			return nil, err
		}
		if in.Env == nil {
			in.Env = object{}
		}
		return often(in.Expression, func() (any, error) { return expr.Run(program, in.Env) })
	})
	// As a deep link runs it: nothing is checked or simplified before.
	pipe.Register("go.expr_unchecked", func(in exprInput) (any, error) {
		if in.Env == nil {
			in.Env = object{}
		}
		return often(in.Expression, func() (any, error) { return expr.Eval(in.Expression, in.Env) })
	})
}

// often runs an expression several times where the order of a map, which Go shuffles, or the clock may show.
func often(expression string, run func() (any, error)) (any, error) {
	value, err := run()
	if err != nil {
		return nil, err
	}
	shown, err := shownValue(value)
	if err != nil {
		return nil, err
	}
	for _, word := range []string{"keys", "values", "toPairs", "groupBy", "now"} {
		if !strings.Contains(expression, word) {
			continue
		}
		for range 100 {
			value, err := run()
			if err != nil {
				return nil, errors.New("oracle: not the same every time")
			}
			again, _ := shownValue(value)
			if !reflect.DeepEqual(shown, again) {
				return nil, errors.New("oracle: not the same every time")
			}
		}
	}
	return shown, nil
}

func shownValue(value any) (any, error) {
	kind, plain, err := plainValue(value)
	return object{"type": kind, "value": plain}, err
}

// plainValue gives a value's type, as the operation names it, and its JSON.
func plainValue(value any) (string, any, error) {
	switch value := value.(type) {
	case nil:
		return "nil", nil, nil
	case time.Time:
		return "time", value.Format(time.RFC3339Nano), nil
	case time.Duration:
		return "duration", value.String(), nil
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Bool:
		return "bool", v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "int", v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "int", v.Uint(), nil
	case reflect.Float32, reflect.Float64:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return "", nil, errors.New("a number that JSON does not have")
		}
		return "float", v.Float(), nil
	case reflect.String:
		return "string", v.String(), nil
	case reflect.Slice, reflect.Array:
		items := []any{}
		for i := range v.Len() {
			_, item, err := plainValue(v.Index(i).Interface())
			if err != nil {
				return "", nil, err
			}
			items = append(items, item)
		}
		return "array", items, nil
	case reflect.Map:
		members := object{}
		for _, key := range v.MapKeys() {
			_, member, err := plainValue(v.MapIndex(key).Interface())
			if err != nil {
				return "", nil, err
			}
			members[fmt.Sprint(key.Interface())] = member
		}
		return "map", members, nil
	}
	return "", nil, fmt.Errorf("a value of %T has no JSON", value)
}
