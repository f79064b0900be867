// Package checkpoint turns the bytes of a checkpoint into values and back.
//
// It depends on nothing else of worklease: what it returns goes into a Checkpoint
// or out of a work function, what it takes comes from Checkpoint.State.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Codec writes values as bytes and reads them back. It must be safe for
// concurrent use if several goroutines share it.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// JSONCodec is a Codec on encoding/json. Its zero value is ready.
type JSONCodec struct{}

var _ Codec = JSONCodec{}

// JSON returns a JSONCodec.
func JSON() JSONCodec { return JSONCodec{} }

// Marshal is json.Marshal.
func (JSONCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal is json.Unmarshal.
func (JSONCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

var errNilCodec = errors.New("codec is nil")

// Encode returns v as c writes it. A nil c is an error.
//
// Mind what comes back: storing an empty slice erases a checkpoint, while a work
// function that returns nil leaves it alone. A codec may write the zero value as
// nothing at all; JSON never does.
func Encode[T any](c Codec, v T) ([]byte, error) {
	if c == nil {
		return nil, fmt.Errorf("checkpoint: Encode: %w", errNilCodec)
	}
	data, err := c.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: Encode %T: %w", v, err)
	}
	return data, nil
}

// Decode returns the value that data was written from. Nil data gives the zero
// value without asking c: a first acquisition has no state. A nil c is an error,
// also then.
func Decode[T any](c Codec, data []byte) (T, error) {
	var v T
	if c == nil {
		return v, fmt.Errorf("checkpoint: Decode: %w", errNilCodec)
	}
	if data == nil {
		return v, nil
	}
	if err := c.Unmarshal(data, &v); err != nil {
		var zero T
		return zero, fmt.Errorf("checkpoint: Decode %T: %w", v, err)
	}
	return v, nil
}
