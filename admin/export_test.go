package admin

// FillQueries makes as many queries seem to run as may run at once, until done is called.
func FillQueries() (done func()) {
	for range cap(queries) {
		queries <- struct{}{}
	}
	return func() {
		for range cap(queries) {
			<-queries
		}
	}
}
