import { type Outcome, REFUSED } from './golden-ranks-sections.ts';

/** What ours must answer where it differs from upstream, by case: a function of upstream's answer where that says more. */

type Ours = (upstream: Outcome) => Outcome;

const refused: Ours = () => ({ ok: false, error: REFUSED });
const accepted: Ours = () => ({ ok: true });
const withFields =
  (fields: object): Ours =>
  (upstream) => ({ ...upstream, ...fields });

const bothSidesRefused = withFields({
  ok: false,
  prefill_address_seen_by_consumer: { error: REFUSED },
  decode_address_seen_by_producer: { error: REFUSED },
});

/** Each rank listens where upstream dials it. */
const listensWhereDialled: Ours = (upstream) => {
  const rows = upstream['rows_dp_tp_listen_dial'] as number[][];
  return {
    ok: true,
    rows_dp_tp_listen_dial: rows.map(([dpRank, tpRank, , dial]) => [dpRank, tpRank, dial, dial]),
    listen_clashes: [],
    rows_where_listen_differs_from_dial: 0,
  };
};

const listensWhereSent: Ours = (upstream) => ({ ...upstream, producer_listens_at: upstream['send_port'] });

/** The same turns of instances as upstream, from 0 on; DP ranks by request // instances, as the file advises. */
function inTurn(prefill: number, decode: number, dpSize: number): Ours {
  return (upstream) => {
    const rows = upstream['rows_request_prefill_decode_dp'] as number[][];
    const ours = rows.map(([request, p, d]) => [
      request,
      (p! + prefill - 1) % prefill,
      (d! + decode - 1) % decode,
      dpSize > 1 ? Math.floor((request! - 1) / prefill) % dpSize : null,
    ]);
    return { ok: true, rows_request_prefill_decode_dp: ours };
  };
}

const withMeta =
  (fields: object): Ours =>
  (upstream) => ({ ok: true, meta: { ...(upstream['meta'] as object), ...fields } });

const tcp = (host: string, ...ports: number[]): Ours =>
  withFields({ paths: ports.map((port) => `tcp://${host}:${port}`) });

const all = (ours: Ours, ids: string): { [id: string]: Ours } =>
  Object.fromEntries(ids.split(' ').map((id) => [id, ours]));

export const OURS: { readonly [id: string]: Ours } = {
  // Advised by the file.
  ...all(listensWhereDialled, 'R147 R148 R149'),
  ...all(listensWhereSent, 'R153 R155 R156'),
  R198: () => ({ ok: true, resolved: [null, { error: REFUSED }], counts_left: { a: 1 }, completed: [] }),
  R200: () => ({ ok: true, resolved: [null, null], counts_left: { a: 1 }, completed: [] }),
  R251: withFields({ ranks: [0, 0, 1, 1, 2, 2, 3, 0, 0, 1] }),
  R252: withFields({ ranks: [1, 1, 0, 2, 1, 3, 0, 0] }),
  R258: inTurn(2, 2, 2),
  R259: inTurn(2, 3, 4),
  R260: inTurn(4, 1, 8),
  ...all(refused, 'R273 R274 R275 R277 R279 R280 R282 R283 R350 R354 R355 R367 R369'),
  ...all(bothSidesRefused, 'R320 R322 R324'),
  R326: withFields({ decode_address_seen_by_producer: 'host:10.0.0.2,handshake:6401,notify:61105' }),
  R360: withMeta({ tp_size: 8 }),
  R372: withFields({ local_block_ids: [] }),
  R377: withFields({ tokens: 0 }),

  // Without advice.
  ...all(refused, 'R106 R108 R110 R112 R114 R116 R118 R120 R124 R126 R128 R130 R132 R134 R140 R142'),
  ...all(refused, 'R158 R159 R160 R213 R221'),
  R163: tcp('10.0.0.1', 61_011, 61_012),
  R164: tcp('[fd00::1]', 61_013, 61_014, 61_015, 61_016, 61_017, 61_018, 61_019, 61_020),
  ...all(accepted, 'R208 R212 R223'),
  R256: inTurn(2, 1, 1),
  R257: inTurn(3, 2, 1),
  ...all(bothSidesRefused, 'R307 R308 R309 R310 R311 R312 R313 R318 R319 R321 R328'),
  ...all(withFields({ async: true }), 'R374 R375'),
  ...all(withFields({ async: false }), 'R383 R384'),
};
