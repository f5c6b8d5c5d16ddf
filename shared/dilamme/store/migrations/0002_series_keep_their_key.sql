-- compatible-from: 1
-- A key lives as long as the series that it stands for. When retention deletes the occurrence that was stored under the key, it
-- hands the key over to the series.
ALTER TABLE dilamme.series ADD COLUMN idempotency_key text;
CREATE INDEX series_idempotency_key ON dilamme.series (idempotency_key) WHERE idempotency_key IS NOT NULL;
