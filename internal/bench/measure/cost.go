package measure

// Cost is what a server spends.
type Cost struct {
	Statements float64 // that clients sent; commands and calls on other stores
	LogBytes   float64 // written ahead
	Flushes    float64 // of that log to disk
	CPU        float64 // seconds, of all its processes
}

// Minus returns what was spent since d.
func (c Cost) Minus(d Cost) Cost {
	return Cost{c.Statements - d.Statements, c.LogBytes - d.LogBytes, c.Flushes - d.Flushes, c.CPU - d.CPU}
}

// Per returns the share of each of n.
func (c Cost) Per(n float64) Cost {
	return Cost{c.Statements / n, c.LogBytes / n, c.Flushes / n, c.CPU / n}
}
