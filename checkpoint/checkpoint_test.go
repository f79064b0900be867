package checkpoint_test

import (
	"errors"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/checkpoint"
)

type cursor struct {
	Page int      `json:"page"`
	Done []string `json:"done,omitempty"`
}

// broken is a JSON codec that fails, after it has written into the value.
type broken struct{ checkpoint.JSONCodec }

var errBroken = errors.New("codec is broken")

func (broken) Marshal(any) ([]byte, error) { return []byte("half of it"), errBroken }

func (c broken) Unmarshal(data []byte, v any) error {
	return errors.Join(c.JSONCodec.Unmarshal(data, v), errBroken)
}

// untouchable is a codec that must not be asked.
type untouchable struct{}

func (untouchable) Marshal(any) ([]byte, error) { panic("Marshal was called") }
func (untouchable) Unmarshal([]byte, any) error { panic("Unmarshal was called") }

var _ = Describe("Encode and Decode", func() {
	It("bring a value back", func() {
		want := cursor{Page: 7, Done: []string{"a", "ü"}}
		data, err := checkpoint.Encode(checkpoint.JSON(), want)
		Expect(err).NotTo(HaveOccurred())
		Expect(checkpoint.Decode[cursor](checkpoint.JSON(), data)).To(Equal(want))
	})

	It("bring a pointer back as a pointer", func() {
		data, err := checkpoint.Encode(checkpoint.JSON(), &cursor{Page: 7})
		Expect(err).NotTo(HaveOccurred())
		Expect(checkpoint.Decode[*cursor](checkpoint.JSON(), data)).To(Equal(&cursor{Page: 7}))
	})

	It("never encode as nothing with JSON, so that storing the result erases nothing", func() {
		Expect(checkpoint.Encode(checkpoint.JSON(), cursor{})).NotTo(BeEmpty())
		Expect(checkpoint.Encode[*cursor](checkpoint.JSON(), nil)).NotTo(BeEmpty())
	})

	It("decode nil as the zero value without asking the codec", func() {
		Expect(checkpoint.Decode[cursor](untouchable{}, nil)).To(Equal(cursor{}))
		Expect(checkpoint.Decode[*cursor](untouchable{}, nil)).To(BeNil())
	})

	It("leave data that is empty but not nil to the codec", func() {
		_, err := checkpoint.Decode[cursor](checkpoint.JSON(), []byte{})
		Expect(err).To(HaveOccurred())
	})

	DescribeTable("refuse a nil codec with a clear error",
		func(call func() error) {
			Expect(call()).To(MatchError(ContainSubstring("codec is nil")))
		},
		Entry("Encode", func() error {
			_, err := checkpoint.Encode(nil, cursor{})
			return err
		}),
		Entry("Decode", func() error {
			_, err := checkpoint.Decode[cursor](nil, []byte("{}"))
			return err
		}),
		Entry("Decode, also of nil data", func() error {
			_, err := checkpoint.Decode[cursor](nil, nil)
			return err
		}),
	)

	It("wrap the codec's error and name the type", func() {
		_, err := checkpoint.Encode(broken{}, cursor{})
		Expect(err).To(MatchError(errBroken))
		Expect(err).To(MatchError(ContainSubstring("checkpoint_test.cursor")))

		_, err = checkpoint.Decode[cursor](broken{}, []byte(`{"page":7}`))
		Expect(err).To(MatchError(errBroken))
		Expect(err).To(MatchError(ContainSubstring("checkpoint_test.cursor")))
	})

	It("return no half of a value beside an error", func() {
		data, err := checkpoint.Encode(broken{}, cursor{Page: 7})
		Expect(err).To(HaveOccurred())
		Expect(data).To(BeNil())

		value, err := checkpoint.Decode[cursor](broken{}, []byte(`{"page":7}`))
		Expect(err).To(HaveOccurred())
		Expect(value).To(Equal(cursor{}))
	})

	It("say so where JSON cannot hold a value", func() {
		_, err := checkpoint.Encode(checkpoint.JSON(), math.Inf(1))
		Expect(err).To(MatchError(ContainSubstring("unsupported value")))
	})
})
