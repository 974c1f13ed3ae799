package serving

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/host/front/jwt"
)

// jwtFlags say the issuer of the JSON Web Tokens that let callers in.
type jwtFlags struct {
	jwks      string
	issuer    string
	audiences []string
}

func (f *jwtFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.jwks, "jwks", "", "`URL` of the keys of an issuer, whose JSON Web Tokens let callers in")
	flags.StringVar(&f.issuer, "jwt-issuer", "", "the `issuer` (iss) that the tokens must have")
	flags.StringArrayVar(&f.audiences, "jwt-audience", nil, "an `audience` (aud) of which the tokens must have one (may be repeated)")
}

// Check refuses flags that say too little: a token that the issuer has made for another service must not be taken.
func (f *jwtFlags) check() error {
	switch set := f.issuer != "" || len(f.audiences) > 0; {
	case f.jwks == "" && set:
		return Usage("--jwt-issuer and --jwt-audience are for --jwks")
	case f.jwks != "" && (f.issuer == "" || len(f.audiences) == 0):
		return Usage("--jwks takes --jwt-issuer and --jwt-audience: a token for another service must not be taken")
	}
	return nil
}

// verifier returns a verifier of the tokens, which the caller closes; nil without the flags.
func (f *jwtFlags) verifier(ctx context.Context, log *slog.Logger) (*jwt.Verifier, error) {
	if f.jwks == "" {
		return nil, nil
	}
	v, err := jwt.New(ctx, &jwt.Options{JWKS: f.jwks, Issuer: f.issuer, Audience: f.audiences, Logger: log})
	if errors.Is(err, jwt.ErrOptions) {
		return nil, Usage("--jwks: " + err.Error())
	}
	return v, err
}

// authorize lets each caller with a token do everything to the actors of these types: their code has the caller, and decides.
func authorize(v *jwt.Verifier, types []*host.Type, o *front.Options) {
	if v == nil {
		return
	}
	rules := map[string]jwt.Rule{}
	for _, t := range types {
		rules[t.Name] = nil
	}
	o.Authorize, o.WithoutToken = v.Authorize(rules), false
}
