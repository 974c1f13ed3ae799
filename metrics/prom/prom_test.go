package prom_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/metrics/prom"
)

var (
	red   = &metrics.Metric{Name: "room_doors", Help: "Doors that were opened", Labels: []metrics.Label{{Name: "room", Value: "red"}, {Name: "side", Value: "left"}}}
	blue  = &metrics.Metric{Name: "room_doors", Help: "Doors that were opened", Labels: []metrics.Label{{Name: "room", Value: "blue"}, {Name: "side", Value: "left"}}}
	waits = &metrics.Metric{Kind: metrics.Timer, Name: "room_waits", Help: "How long visitors waited"}
	open  = &metrics.Metric{Kind: metrics.Total, Name: "room_open", Help: "How long doors were open"}
)

// A program makes a Sink of the metrics of the packages that it uses, and registers it.
func Example() {
	sink, err := prom.New(red, blue, waits, open)
	if err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(sink)
	sink.Add(red, 2)
	sink.Observe(waits, 30*time.Millisecond)
	sink.Observe(open, 3*time.Second)
	sink.Observe(open, time.Second)
	sink.Add(&metrics.Metric{Name: "unknown"}, 1)

	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				fmt.Print(l.GetValue(), " ")
			}
			if c := m.GetCounter(); c != nil {
				fmt.Println(f.GetName(), c.GetValue())
			} else {
				fmt.Println(f.GetName(), m.GetHistogram().GetSampleSum())
			}
		}
	}
	// Output:
	// blue left greenroom_room_doors_total 0
	// red left greenroom_room_doors_total 2
	// greenroom_room_open_seconds_total 4
	// greenroom_room_waits_seconds 0.03
}

func TestNewRefuses(t *testing.T) {
	for name, other := range map[string]metrics.Metric{
		"twice":         *red,
		"another kind":  {Kind: metrics.Timer, Name: red.Name, Help: red.Help, Labels: []metrics.Label{{Name: "room", Value: "x"}, {Name: "side", Value: "left"}}},
		"another help":  {Name: red.Name, Help: "?", Labels: []metrics.Label{{Name: "room", Value: "x"}, {Name: "side", Value: "left"}}},
		"another label": {Name: red.Name, Help: red.Help, Labels: []metrics.Label{{Name: "house", Value: "x"}, {Name: "side", Value: "left"}}},
		"fewer labels":  {Name: red.Name, Help: red.Help, Labels: red.Labels[:1]},
		"no label":      {Name: red.Name, Help: red.Help},
	} {
		if _, err := prom.New(red, &other); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	sink, err := prom.New(red, waits, open)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { sink.Add(red, 1); sink.Observe(waits, time.Second); sink.Observe(open, time.Second) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLearn: metrics of new labels are added, those that there are stay, and a name that isn't there is refused.
func TestLearn(t *testing.T) {
	sink, err := prom.New(red, waits)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(sink)
	sink.Add(red, 2)
	sink.Add(blue, 5) // which isn't known
	if err := sink.Learn(red, blue); err != nil {
		t.Fatal(err)
	}
	sink.Add(red, 1)
	sink.Add(blue, 7)
	if err := sink.Learn(open); err == nil {
		t.Error("a new name is no error")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if c := m.GetCounter(); c != nil {
				got[m.GetLabel()[0].GetValue()] = c.GetValue()
			}
		}
	}
	if got["red"] != 3 || got["blue"] != 7 {
		t.Errorf("got %v", got)
	}
}
