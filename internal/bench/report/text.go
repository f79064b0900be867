//go:build linux

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aetomala/worklease/internal/bench/measure"
)

// grid writes a table of Markdown. The first column is text, the others figures.
func grid(head []string, rows [][]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s |\n|%s\n", strings.Join(head, " | "), " --- |"+strings.Repeat(" ---: |", len(head)-1))
	for _, row := range rows {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
	}
	return text.String()
}

// spread writes a median with its least and greatest.
func spread(s measure.Spread, digits int) string {
	return fmt.Sprintf("%s (%s–%s)", thousands(s.Median, digits), thousands(s.Least, digits), thousands(s.Greatest, digits))
}

// thousands writes a number with commas between its thousands.
func thousands(value float64, digits int) string {
	text := strconv.FormatFloat(value, 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole
}

func many(clients int) string {
	if clients == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", clients)
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// byValue returns the names in the order of their values, the greatest first.
func byValue(m map[string]float64) []string {
	return slices.SortedStableFunc(slices.Values(sortedNames(m)), func(a, b string) int { return cmp.Compare(m[b], m[a]) })
}
