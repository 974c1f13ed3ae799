// Command shop is a whole program with actors: lists of what is to be done, in SQL; wallets, of which one pays into another by one commit; orders, which are workflows that pay back what they can't deliver; mailboxes, which try
// again, and keep what they couldn't send and why; and agents, whose words reach clients as they come.
//
//	go run ./examples/shop STORE
//
// It is served with the flags of greenroom host, and the page on how clients reach actors, docs/front.md, is about it, too:
//
//	curl --json '{"customer":"ann@example.org","item":"tea","cents":500}' http://127.0.0.1:6420/actors/order/7/actions/place
//	curl -X POST http://127.0.0.1:6420/actors/order/7/actions/status
//	curl --json '"AB 12"' http://127.0.0.1:6420/actors/order/7/actions/shipped
//
// Its world is a log: no money moves, no mail leaves, and the model repeats the question.
package main

import (
	"context"
	"log/slog"
	"strings"

	"github.com/greenroomdb/greenroom/host/serve"
)

func main() {
	w := logged{slog.Default()}
	serve.Main(todo, wallet, orders(w), mailboxes(w.send), agents(echo))
}

// logged is a world that says what it is asked to do.
type logged struct{ log *slog.Logger }

func (w logged) Charge(_ context.Context, key string, o Order) (string, error) {
	w.log.Info("charge", "key", key, "customer", o.Customer, "cents", o.Cents)
	return "payment " + key, nil
}

func (w logged) Refund(_ context.Context, payment string) error {
	w.log.Info("refund", "payment", payment)
	return nil
}

func (w logged) Pack(_ context.Context, key string, o Order) (string, error) {
	w.log.Info("pack", "key", key, "item", o.Item)
	return "parcel " + key, nil
}

func (w logged) Unpack(_ context.Context, parcel string) error {
	w.log.Info("unpack", "parcel", parcel)
	return nil
}

func (w logged) send(_ context.Context, m Mail) error {
	w.log.Info("mail", "to", m.To, "text", m.Text)
	return nil
}

// echo is a model that repeats the question.
func echo(_ context.Context, question string, tell func(word string) error) (string, error) {
	for word := range strings.FieldsSeq(question) {
		if err := tell(word); err != nil {
			return "", err
		}
	}
	return question, nil
}
