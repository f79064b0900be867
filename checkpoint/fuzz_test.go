package checkpoint_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/aetomala/worklease/checkpoint"
)

// progress has something of everything that JSON can hold.
type progress struct {
	Cursor  int64
	Ratio   float64
	Name    string
	Done    bool
	Raw     []byte
	Pages   []int
	Tenants map[string]*progress
	Any     any
}

// Whatever stands in a store, decoding it gives a value or an error and never
// panics; a value that came out goes in again as what it was.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		``, `null`, `{}`, `[]`, `"text"`, `{"Cursor":7,"Done":true}`,
		`{"Cursor":1e99}`, `{"Ratio":1e-999,"Name":"\ud800"}`, `{"Raw":"AAE=","Pages":[1,2]}`,
		`{"Tenants":{"a":{"Any":[1,{"b":null}]},"c":null}}`, `{"Cursor":7} trailing`, "\xff",
	} {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		stored := bytes.Clone(data)
		codec := checkpoint.JSON()
		value, err := checkpoint.Decode[progress](codec, data)
		if !bytes.Equal(data, stored) {
			t.Fatalf("the state became %q", data)
		}
		if err != nil {
			if !reflect.ValueOf(value).IsZero() {
				t.Fatalf("%+v beside %v", value, err)
			}
			return
		}
		again, err := checkpoint.Encode(codec, value)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) == 0 {
			t.Fatal("encoded as nothing, which erases a checkpoint")
		}
		back, err := checkpoint.Decode[progress](codec, again)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, value) {
			t.Fatalf("%+v came back as %+v", value, back)
		}
	})
}
