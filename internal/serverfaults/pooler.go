package serverfaults

func (s *subject) poolerSpecs() {}
func (s *subject) longSpecs()   {}

// Child ends the process if it is one.
func Child() {}
