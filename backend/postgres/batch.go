package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aetomala/worklease/backend"
)

// errBusy is for a lease whose row somebody has locked. It is no verdict.
var errBusy = errors.New("the lease's row is locked")

// RenewBatch implements [backend.BatchRenewer].
func (b *Backend) RenewBatch(ctx context.Context, records []backend.LeaseRecord, ttl time.Duration) ([]error, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	outcomes := make([]byte, len(records))
	var asked []int
	for i, record := range records {
		if record.FencingToken <= math.MaxInt64 {
			asked = append(asked, i)
		}
	}
	if err := b.letters(ctx, renewBatch, records, asked, outcomes, ttl.Microseconds()); err != nil {
		return nil, err
	}
	var open []int
	for _, i := range asked {
		if outcomes[i] != 'r' {
			open = append(open, i)
		}
	}
	reasons := make([]byte, len(records))
	err := b.letters(ctx, whyBatch, records, open, reasons)

	verdicts := make([]error, len(records))
	for i := range records {
		switch {
		case outcomes[i] == 'r':
		case outcomes[i] == 0: // a token that nobody can hold
			verdicts[i] = backend.ErrFenced
		case err != nil: // of the second statement, after others were renewed
			verdicts[i] = err
		case reasons[i] == 'f':
			verdicts[i] = backend.ErrFenced
		case reasons[i] == 'o' && outcomes[i] == 'l':
			verdicts[i] = backend.ErrLeaseExpired
		default:
			// A lease that was missed may look over while whoever has locked its row
			// extends it.
			verdicts[i] = errBusy
		}
	}
	return verdicts, nil
}

// letters runs a statement on the records at some places, and puts the letter that
// it answers for each of them at its place.
func (b *Backend) letters(ctx context.Context, name string, records []backend.LeaseRecord, places []int, letters []byte, args ...any) error {
	if len(places) == 0 {
		return nil
	}
	ids, holders, tokens := make([]string, len(places)), make([]string, len(places)), make([]string, len(places))
	for n, i := range places {
		ids[n], holders[n] = records[i].WorkID, records[i].HolderID
		tokens[n] = strconv.FormatUint(records[i].FencingToken, 10)
	}
	var answer string
	_, err := b.row(ctx, name, append([]any{array(ids), array(holders), array(tokens)}, args...), &answer)
	if err != nil {
		return err
	}
	if len(answer) != len(places) {
		return b.explain(ctx, fmt.Errorf("%w: %d letters in place of the %d of %q", errMisrouted, len(answer), len(places), name))
	}
	for n, i := range places {
		letters[i] = answer[n]
	}
	return nil
}

var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// array writes elements as PostgreSQL reads an array (PostgreSQL, "Arrays: Array
// Input and Output Syntax"), which no driver need know of.
func array(elements []string) string {
	var text strings.Builder
	for n, element := range elements {
		text.WriteString([...]string{`{"`, `","`}[min(n, 1)])
		_, _ = quoted.WriteString(&text, element)
	}
	text.WriteString(`"}`)
	return text.String()
}
