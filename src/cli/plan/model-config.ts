import { UsageError } from '../../base/failure.ts';
import { describeValue } from '../../base/thrown.ts';
import { CACHE_DTYPES, type CacheDtype, type ModelSpec } from './model-spec.ts';

/** A Hugging Face config.json, read field by field; an error names the file and the path in it. */

type Fields = Readonly<Record<string, unknown>>;

interface Place {
  readonly file: string;
  /** Path of the object within the file, with a dot at its end; '' for the file itself. */
  readonly path: string;
  readonly fields: Fields;
}

const LAYERS_MAX = 1024;
const HEADS_MAX = 4096;
const SIZE_MAX = 1 << 20;
const TOKENS_MAX = 2 ** 40;

/** @throws UsageError MODEL-CONFIG */
export function readModelConfig(text: string, file: string): ModelSpec {
  const place = languageModel(parse(text, file), file);
  const { fields } = place;
  const name = stringOr(place, 'model_type', 'a model without model_type');
  const layers = integer(place, 'num_hidden_layers', LAYERS_MAX);
  const attentionHeads = integer(place, 'num_attention_heads', HEADS_MAX);
  const common = { name, layers, dtype: dtypeOf(place), windows: windowsOf(place, layers) };
  refuseUnplanned(place);
  if (isPresent(fields, 'kv_lora_rank')) {
    const latent = {
      rank: integer(place, 'kv_lora_rank', SIZE_MAX),
      rope: integer(place, 'qk_rope_head_dim', SIZE_MAX),
    };
    return { ...common, heads: 1, headSize: 0, latent };
  }
  const heads = isPresent(fields, 'num_key_value_heads')
    ? integer(place, 'num_key_value_heads', HEADS_MAX)
    : attentionHeads;
  if (attentionHeads % heads !== 0)
    throw wrong(
      place,
      'num_key_value_heads',
      `${heads} does not divide num_attention_heads ${attentionHeads}`,
    );
  return { ...common, heads, headSize: headSizeOf(place, attentionHeads), latent: null };
}

function parse(text: string, file: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UsageError(
      'MODEL-JSON',
      `${file} is not JSON: ${(error as Error).message.replace(/\s+/g, ' ')}`,
    );
  }
  if (!isObject(value))
    throw new UsageError('MODEL-CONFIG', `${file}: the file must hold one object, the model's config.json`);
  return value;
}

/** Models that also see or hear keep the part that has a KV cache under `text_config`. */
function languageModel(fields: Fields, file: string): Place {
  const inner = fields['text_config'];
  const isNested = !isPresent(fields, 'num_hidden_layers') && isObject(inner);
  return isNested ? { file, path: 'text_config.', fields: inner } : { file, path: '', fields };
}

/** Caches that a plan would count wrong. */
function refuseUnplanned(place: Place): void {
  const { fields } = place;
  if (isPresent(fields, 'index_head_dim'))
    throw wrong(
      place,
      'index_head_dim',
      'a sparse indexer keeps a second cache in each layer, which is not planned',
    );
  const isLatent = isPresent(fields, 'kv_lora_rank');
  const valueSize = fields['v_head_dim'];
  if (!isLatent && isPresent(fields, 'v_head_dim') && valueSize !== fields['head_dim'])
    throw wrong(
      place,
      'v_head_dim',
      `${show(valueSize)} is not head_dim: V of another size than K is not planned`,
    );
}

function headSizeOf(place: Place, attentionHeads: number): number {
  if (isPresent(place.fields, 'head_dim')) return integer(place, 'head_dim', SIZE_MAX);
  const hidden = integer(place, 'hidden_size', SIZE_MAX);
  if (hidden % attentionHeads !== 0)
    throw wrong(
      place,
      'hidden_size',
      `${hidden} is not a multiple of num_attention_heads ${attentionHeads}: add head_dim`,
    );
  return hidden / attentionHeads;
}

function dtypeOf(place: Place): CacheDtype | null {
  const field = isPresent(place.fields, 'dtype') ? 'dtype' : 'torch_dtype';
  if (!isPresent(place.fields, field)) return null;
  const value = place.fields[field];
  const named = CACHE_DTYPES.find((dtype) => dtype === value);
  if (named === undefined || named.startsWith('fp8'))
    throw wrong(
      place,
      field,
      `${show(value)} is not one of bfloat16, float16, float32; --kv-dtype overrides it`,
    );
  return named;
}

/**
 * Which layers see only a window. `layer_types` says it for each layer; without it a `sliding_window` is for all layers,
 * unless `use_sliding_window` is false or `sliding_window_pattern` lets every n-th layer see everything.
 */
function windowsOf(place: Place, layers: number): number[] {
  const { fields } = place;
  const all = new Array<number>(layers).fill(0);
  const types = fields['layer_types'];
  if (types !== undefined && types !== null) return byLayerTypes(place, types, layers);
  if (!isPresent(fields, 'sliding_window') || fields['use_sliding_window'] === false) return all;
  const window = integer(place, 'sliding_window', TOKENS_MAX);
  const pattern = isPresent(fields, 'sliding_window_pattern')
    ? integer(place, 'sliding_window_pattern', LAYERS_MAX)
    : Number.POSITIVE_INFINITY;
  return all.map((_, layer) => ((layer + 1) % pattern === 0 ? 0 : window));
}

function byLayerTypes(place: Place, types: unknown, layers: number): number[] {
  if (!Array.isArray(types)) throw wrong(place, 'layer_types', `${show(types)} is not a list of strings`);
  if (types.length !== layers)
    throw wrong(place, 'layer_types', `${types.length} entries, num_hidden_layers says ${layers}`);
  return types.map((type: unknown, layer) => {
    if (type === 'full_attention' || type === 'attention') return 0;
    if (type === 'sliding_attention') return integer(place, 'sliding_window', TOKENS_MAX);
    if (type === 'chunked_attention') return integer(place, 'attention_chunk_size', TOKENS_MAX);
    throw wrong(
      place,
      `layer_types[${layer}]`,
      `${show(type)} is not planned; full_attention, sliding_attention and chunked_attention are`,
    );
  });
}

function integer(place: Place, field: string, most: number): number {
  const value = place.fields[field];
  if (value === undefined || value === null) throw wrong(place, field, 'is missing');
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > most)
    throw wrong(place, field, `${show(value)} is not an integer from 1 to ${most}`);
  return value;
}

function stringOr(place: Place, field: string, otherwise: string): string {
  const value = place.fields[field];
  if (value === undefined || value === null) return otherwise;
  if (typeof value !== 'string' || !/^[\w.-]{1,80}$/.test(value))
    throw wrong(place, field, `${show(value)} is not a model type such as "llama"`);
  return value;
}

function wrong(place: Place, field: string, what: string): UsageError {
  return new UsageError('MODEL-CONFIG', `${place.file}: ${place.path}${field}: ${what}`);
}

function isPresent(fields: Fields, field: string): boolean {
  return fields[field] !== undefined && fields[field] !== null;
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A value from outside, on one line and short; one that is nested too deep to be written by its type. */
function show(value: unknown): string {
  let text: string;
  try {
    text = JSON.stringify(value);
  } catch {
    return describeValue(value);
  }
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
