package transcript

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/runs"
	"parley/conversation/steps"
)

// What is exported of a run, of the calls after it and of a summary is imported whole: no field is left out, such as who
// allowed a tool call.
func TestNoFieldOfARunIsLostBetweenExportAndImport(t *testing.T) {
	t.Parallel()
	var run runs.Record
	var background archive.BackgroundStep
	var summary conversation.Summary
	for _, what := range []any{&run, &background, &summary} {
		fill(t, reflect.ValueOf(what).Elem())
	}
	for _, exported := range []archive.Record{{Run: &run}, {Background: &background}, {Summary: &summary}} {
		kind, form := recordForm(exported)
		text, err := json.Marshal(form)
		if err != nil {
			t.Fatal(err)
		}
		imported, err := ParseRecord(kind, text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(exported, imported); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

// fill gives each field another value than its zero, of a kind that a record can have.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch value := v.Addr().Interface().(type) {
	case *time.Time:
		*value = at(1)
		return
	case *time.Duration:
		*value = 7 * time.Millisecond
		return
	case *steps.Kind:
		*value = steps.Approval
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	default:
		t.Fatalf("a record has a field of the type %s", v.Type())
	}
}
