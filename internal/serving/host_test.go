package serving

import "testing"

// TestHostTraces: --traces=false turns spans off.
func TestHostTraces(t *testing.T) {
	for _, flags := range [][]string{nil, {"--traces=false"}} {
		s := &hostServer{command: &HostCommand{}, flags: &hostFlags{}}
		cmd := (&HostCommand{}).Command()
		if err := cmd.ParseFlags(flags); err != nil {
			t.Fatal(err)
		}
		on, err := cmd.Flags().GetBool("traces")
		if err != nil {
			t.Fatal(err)
		}
		s.flags.traces = on
		opts, err := s.hostOptions(nil)
		if err != nil || (opts.Traces != nil) != (flags == nil) {
			t.Errorf("%q: %+v, %v", flags, opts, err)
		}
	}
}
