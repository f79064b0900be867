package measure

import "slices"

// Spread is a median with the least and the greatest of what it was taken from.
type Spread struct{ Median, Least, Greatest float64 }

// SpreadOf returns the spread of values, zero for none. Of an even number of them
// the median is the mean of the middle two.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

// Of returns the spread of what get takes from the samples of key.
func (s Samples) Of(key Key, get func(Sample) float64) Spread {
	var values []float64
	for _, sample := range s[key] {
		values = append(values, get(sample))
	}
	return SpreadOf(values)
}

// Ratio returns the spread of key's values over those of yardstick, each taken
// within its round.
func (s Samples) Ratio(key, yardstick Key, get func(Sample) float64) Spread {
	var ratios []float64
	for round := range min(len(s[key]), len(s[yardstick])) {
		ratios = append(ratios, get(s[key][round])/get(s[yardstick][round]))
	}
	return SpreadOf(ratios)
}

// Rate takes how often a second the work was done.
func Rate(s Sample) float64 { return s.Rate }
