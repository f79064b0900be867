package measure

import (
	"fmt"
	"strconv"
	"strings"
)

// separator stands between the parts of a key's text.
const separator = " | "

// MarshalText implements [encoding.TextMarshaler], so that samples can be kept as
// JSON.
func (k Key) MarshalText() ([]byte, error) {
	return []byte(strings.Join([]string{k.Table, k.Contender, strconv.Itoa(k.Clients)}, separator)), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (k *Key) UnmarshalText(text []byte) (err error) {
	parts := strings.Split(string(text), separator)
	if len(parts) != 3 {
		return fmt.Errorf("key %q", text)
	}
	k.Table, k.Contender = parts[0], parts[1]
	k.Clients, err = strconv.Atoi(parts[2])
	return err
}
