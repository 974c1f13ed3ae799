package serving

import (
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host/fleet"
	"github.com/greenroomdb/greenroom/kv"
)

// FleetFlags say how hosts that share a store find each other.
type FleetFlags struct {
	advertise string
	Place     string
	insecure  bool
}

// fleetHelp is what greenroom host says about them.
const fleetHelp = `Where several hosts serve a store in PostgreSQL, any of them takes any call: what is asked
of an actor that another host has is forwarded there, once. A host tells the others its
address: that of --listen, or --advertise, such as https://ADDRESS:PORT of a proxy in front
of it that speaks TLS. What hosts send each other is signed and not encrypted: beyond
loopback and without TLS they forward nothing, unless --fleet-insecure is set. An actor that
no host has goes to one that all hosts agree on, or, with --place here, to the one that is
asked.`

// EngineFleetHelp is what greenroom engine says about them.
const EngineFleetHelp = `Where several engines serve a store in PostgreSQL, any of them takes any request and socket:
those for an actor that another engine has go there, once, and an actor that no engine has
goes to one that its program is connected to. An engine tells the others its address: that
of --listen, or --advertise, such as https://ADDRESS:PORT of a proxy in front of it that
speaks TLS. What engines send each other is signed and not encrypted: beyond loopback and
without TLS they pass nothing on, unless --fleet-insecure is set.`

// Flags adds the flags, but for --place, which is a host's.
func (f *FleetFlags) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.advertise, "advertise", "", "`address` and port at which the other hosts of the store reach this one, or https://ADDRESS:PORT; default that of --listen")
	cmd.Flags().BoolVar(&f.insecure, "fleet-insecure", false, "let hosts forward calls without TLS beyond loopback")
}

// Check refuses what makes no sense.
func (f *FleetFlags) Check() error {
	if f.Place != "hash" && f.Place != "here" {
		return Usage("--place is hash or here, not " + f.Place)
	}
	if f.advertise != "" {
		if err := actorstore.CheckAddress(f.advertise); err != nil {
			return Usage("--advertise: " + err.Error())
		}
	}
	return nil
}

// Options returns how a host finds the others of its store, nil for one that forwards nothing. listens is the beginning of its URLs.
func (f *FleetFlags) Options(engine kv.Engine, listens string, t *TLSFlags, log *slog.Logger) (*fleet.Options, error) {
	if kv.Shared(engine) != nil {
		if f.advertise != "" {
			return nil, Usage("--advertise is for a store that several hosts may serve, in PostgreSQL")
		}
		return nil, nil
	}
	roots, err := t.config()
	if err != nil {
		return nil, err
	}
	o := &fleet.Options{Address: f.advertise, Insecure: f.insecure, TLS: roots, Here: f.Place == "here", Logger: log}
	if o.Address == "" {
		o.Address = strings.TrimPrefix(listens, "http://")
		name, _, err := net.SplitHostPort(strings.TrimPrefix(o.Address, "https://"))
		ip := net.ParseIP(name)
		if err != nil || ip == nil || ip.IsUnspecified() || t.cert == "" && !ip.IsLoopback() && !f.insecure {
			log.Warn("greenroom: calls of actors that other hosts have are refused: set --advertise, with TLS or --fleet-insecure", slog.String("listen", listens))
			return nil, nil
		}
	}
	return o, nil
}
