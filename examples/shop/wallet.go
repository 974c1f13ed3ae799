package main

import (
	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
)

// wallet is the type of what customers have in credit, in cents.
var wallet = &host.Type{Name: "wallet", Actions: []host.AnyAction{deposit, give}}

// deposit returns the new balance.
var deposit = host.NewAction("deposit", func(c *host.Context, cents int) (balance int, err error) { return book(c, cents) })

// A Gift is credit for another customer.
type Gift struct {
	To    string `json:"to"`
	Cents int    `json:"cents"`
}

// give changes two wallets by one commit, or neither, and returns what is left in the first.
var give = host.NewJointAction("give",
	func(_ host.Address, g Gift) ([]host.Address, error) {
		return []host.Address{{Type: "wallet", Key: g.To}}, nil
	},
	func(c *host.Context, others []*host.Context, g Gift) (left int, err error) {
		if g.Cents <= 0 {
			return 0, &host.Error{Code: "bad_gift", Message: "A gift has a cent or more."}
		}
		if _, err := book(others[0], g.Cents); err != nil {
			return 0, err
		}
		return book(c, -g.Cents)
	})

func book(c *host.Context, cents int) (balance int, err error) {
	err = greenroom.Mutate(c, func(b *int) error {
		if *b += cents; *b < 0 {
			return &host.Error{Code: "too_little", Message: "There isn't so much in the wallet."}
		}
		balance = *b
		return nil
	})
	return balance, err
}
