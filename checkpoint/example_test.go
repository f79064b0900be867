package checkpoint_test

import (
	"bytes"
	"encoding/gob"
	"fmt"

	"github.com/aetomala/worklease/checkpoint"
)

type onboarding struct {
	Account  string `json:"account"`
	Database bool   `json:"database"`
}

func Example() {
	codec := checkpoint.JSON()
	state, err := checkpoint.Encode(codec, onboarding{Account: "tenant-42"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("stored: %s\n", state)

	resumed, err := checkpoint.Decode[onboarding](codec, state)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("account:", resumed.Account, "database:", resumed.Database)
	// Output:
	// stored: {"account":"tenant-42","database":false}
	// account: tenant-42 database: false
}

// The first holder finds no state, which is nil.
func ExampleDecode_firstAcquisition() {
	start, err := checkpoint.Decode[onboarding](checkpoint.JSON(), nil)
	fmt.Printf("%+v %v\n", start, err)
	// Output:
	// {Account: Database:false} <nil>
}

func ExampleEncode() {
	state, err := checkpoint.Encode(checkpoint.JSON(), []int{1, 2})
	fmt.Printf("%s %v\n", state, err)

	_, err = checkpoint.Encode(nil, []int{1, 2})
	fmt.Println(err)
	// Output:
	// [1,2] <nil>
	// checkpoint: Encode: codec is nil
}

func ExampleJSON() {
	data, err := checkpoint.JSON().Marshal(map[string]int{"page": 7})
	fmt.Printf("%s %v\n", data, err)
	// Output:
	// {"page":7} <nil>
}

// gobCodec is a codec of one's own.
type gobCodec struct{}

func (gobCodec) Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	err := gob.NewEncoder(&buf).Encode(v)
	return buf.Bytes(), err
}

func (gobCodec) Unmarshal(data []byte, v any) error {
	return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
}

func ExampleCodec() {
	state, err := checkpoint.Encode(gobCodec{}, onboarding{Account: "tenant-42", Database: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	resumed, err := checkpoint.Decode[onboarding](gobCodec{}, state)
	fmt.Printf("%+v %v\n", resumed, err)
	// Output:
	// {Account:tenant-42 Database:true} <nil>
}
