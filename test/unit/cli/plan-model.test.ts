import { describe, expect, test } from 'vitest';
import { readModelConfig } from '../../../src/cli/plan/model-config.ts';
import { bytesPerToken, type CacheDtype, tokenHeadBytes } from '../../../src/cli/plan/model-spec.ts';
import { MODEL_NAMES, modelByName } from '../../../src/cli/plan/models.ts';

const LLAMA = {
  model_type: 'llama',
  num_hidden_layers: 80,
  num_attention_heads: 64,
  num_key_value_heads: 8,
  hidden_size: 8192,
  torch_dtype: 'bfloat16',
};
const DEEPSEEK = {
  model_type: 'deepseek_v3',
  num_hidden_layers: 61,
  num_attention_heads: 128,
  num_key_value_heads: 128,
  hidden_size: 7168,
  kv_lora_rank: 512,
  qk_rope_head_dim: 64,
  v_head_dim: 128,
  torch_dtype: 'bfloat16',
};

const read = (config: object): ReturnType<typeof readModelConfig> =>
  readModelConfig(JSON.stringify(config), 'dir/config.json');

describe('bytes per token', () => {
  // The figures that the public sources give: peers.md 3.
  test.each([
    ['llama-3-8b', 131_072],
    ['llama-3-70b', 327_680],
    ['qwen3-8b', 147_456],
    ['qwen3-235b-a22b', 192_512],
    ['deepseek-v3', 70_272],
    ['deepseek-r1', 70_272],
    ['gpt-oss-120b', 73_728],
    ['mixtral-8x7b', 131_072],
  ])('of %s are %i', (name, bytes) => {
    expect(bytesPerToken(modelByName(name)!, 'bfloat16')).toBe(bytes);
  });

  test('are known for every name', () => {
    expect(MODEL_NAMES).toHaveLength(8);
    for (const name of MODEL_NAMES)
      expect(modelByName(name)!.windows).toHaveLength(modelByName(name)!.layers);
    expect(modelByName('gpt-5')).toBeUndefined();
  });

  test.each<[string, CacheDtype, number]>([
    ['llama-3-8b', 'fp8', 65_536],
    ['llama-3-8b', 'float32', 262_144],
    ['llama-3-8b', 'nvfp4', 36_864],
    ['deepseek-v3', 'fp8', 61 * 576],
    ['deepseek-v3', 'fp8_ds_mla', 61 * 656],
  ])('of %s in %s are %i', (name, dtype, bytes) => {
    expect(bytesPerToken(modelByName(name)!, dtype)).toBe(bytes);
  });

  test.each<[string, CacheDtype]>([
    ['llama-3-8b', 'fp8_ds_mla'],
    ['deepseek-v3', 'nvfp4'],
  ])('of %s in %s are refused', (name, dtype) => {
    expect(() => tokenHeadBytes(modelByName(name)!, dtype)).toThrow(/has none: use another --kv-dtype/);
  });
});

describe('a config.json', () => {
  test('of a grouped model gives layers, heads and head size', () => {
    expect(read(LLAMA)).toMatchObject({ name: 'llama', layers: 80, heads: 8, headSize: 128, latent: null });
    expect(bytesPerToken(read(LLAMA), 'bfloat16')).toBe(327_680);
  });

  test('of a latent model counts one head of rank and rope', () => {
    expect(read(DEEPSEEK)).toMatchObject({ heads: 1, latent: { rank: 512, rope: 64 }, dtype: 'bfloat16' });
    expect(bytesPerToken(read(DEEPSEEK), 'bfloat16')).toBe(70_272);
  });

  test('with head_dim needs no hidden_size', () => {
    const { hidden_size: _, ...rest } = LLAMA;
    expect(read({ ...rest, head_dim: 64 }).headSize).toBe(64);
    expect(read({ ...LLAMA, head_dim: null }).headSize).toBe(128);
  });

  test('without num_key_value_heads has as many as attention heads', () => {
    const { num_key_value_heads: _, ...rest } = LLAMA;
    expect(read(rest).heads).toBe(64);
  });

  test('takes dtype before torch_dtype, and may have neither', () => {
    expect(read({ ...LLAMA, dtype: 'float16' }).dtype).toBe('float16');
    const { torch_dtype: _, ...rest } = LLAMA;
    expect(read(rest).dtype).toBeNull();
  });

  test('of a model that also sees is read under text_config', () => {
    expect(read({ model_type: 'both', text_config: LLAMA }).heads).toBe(8);
    expect(() => read({ text_config: { ...LLAMA, num_hidden_layers: 0 } })).toThrow(
      'dir/config.json: text_config.num_hidden_layers: 0 is not an integer from 1 to 1024',
    );
  });

  const small = { ...LLAMA, num_hidden_layers: 4 };
  test.each([
    ['no window', {}, [0, 0, 0, 0]],
    ['a window for all', { sliding_window: 100 }, [100, 100, 100, 100]],
    ['a window that is off', { sliding_window: 100, use_sliding_window: false }, [0, 0, 0, 0]],
    ['every second layer without', { sliding_window: 100, sliding_window_pattern: 2 }, [100, 0, 100, 0]],
    [
      'types',
      {
        sliding_window: 100,
        attention_chunk_size: 50,
        layer_types: ['sliding_attention', 'full_attention', 'chunked_attention', 'full_attention'],
      },
      [100, 0, 50, 0],
    ],
  ])('says the windows: %s', (_, change, windows) => {
    expect(read({ ...small, ...change }).windows).toEqual(windows);
  });

  test.each<[string, object, string]>([
    ['a missing field', { num_hidden_layers: undefined }, 'num_hidden_layers: is missing'],
    ['a string for a number', { num_hidden_layers: '80' }, 'num_hidden_layers: "80" is not an integer'],
    ['a fraction', { num_attention_heads: 6.5 }, 'num_attention_heads: 6.5 is not an integer'],
    ['a negative number', { num_key_value_heads: -8 }, 'num_key_value_heads: -8 is not an integer'],
    ['heads that do not divide', { num_key_value_heads: 7 }, 'num_key_value_heads: 7 does not divide'],
    ['an odd hidden size', { hidden_size: 8191 }, 'hidden_size: 8191 is not a multiple'],
    ['a type that is none', { torch_dtype: 'int4' }, 'torch_dtype: "int4" is not one of'],
    ['a latent cache without rope', { kv_lora_rank: 512 }, 'qk_rope_head_dim: is missing'],
    ['types of another length', { layer_types: ['full_attention'] }, 'layer_types: 1 entries'],
    ['types that are none', { layer_types: 'all' }, 'layer_types: "all" is not a list'],
    ['a model type that is none', { model_type: 'a b\n' }, 'model_type: "a b\\n" is not a model type'],
    ['a sparse indexer', { index_head_dim: 128 }, 'index_head_dim: a sparse indexer'],
    ['V of another size', { head_dim: 192, v_head_dim: 128 }, 'v_head_dim: 128 is not head_dim'],
  ])('is refused with the path for %s', (_, change, complaint) => {
    expect(() => read({ ...LLAMA, ...change })).toThrow(`dir/config.json: ${complaint}`);
  });

  test('is refused with the entry for a layer without K and V', () => {
    const layer_types = ['full_attention', 'linear_attention', 'full_attention', 'full_attention'];
    expect(() => read({ ...small, layer_types })).toThrow(
      'layer_types[1]: "linear_attention" is not planned',
    );
  });

  test.each([
    ['[]', 'must hold one object'],
    ['{"a":\n1', 'dir/config.json is not JSON'],
  ])('is refused when the text is %j', (text, complaint) => {
    expect(() => readModelConfig(text, 'dir/config.json')).toThrow(complaint);
  });
});
