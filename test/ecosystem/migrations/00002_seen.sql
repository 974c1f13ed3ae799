-- +goose Up
ALTER TABLE message ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;

-- +goose StatementBegin
CREATE TRIGGER message_trimmed AFTER INSERT ON message BEGIN
    UPDATE message SET body = trim(new.body) WHERE id = new.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER message_trimmed;
ALTER TABLE message DROP COLUMN seen;
