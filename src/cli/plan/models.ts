import type { ModelSpec } from './model-spec.ts';

/** Public models by name; their figures are those of their published config.json. */

function grouped(name: string, layers: number, heads: number, headSize: number): ModelSpec {
  return {
    name,
    layers,
    heads,
    headSize,
    latent: null,
    dtype: 'bfloat16',
    windows: new Array<number>(layers).fill(0),
  };
}

function latent(name: string, layers: number): ModelSpec {
  return { ...grouped(name, layers, 1, 0), latent: { rank: 512, rope: 64 } };
}

/** Every other layer, the first one included, sees `window` tokens. */
function alternating(model: ModelSpec, window: number): ModelSpec {
  return { ...model, windows: model.windows.map((_, layer) => (layer % 2 === 0 ? window : 0)) };
}

const MODELS: readonly ModelSpec[] = [
  grouped('llama-3-8b', 32, 8, 128),
  grouped('llama-3-70b', 80, 8, 128),
  grouped('qwen3-8b', 36, 8, 128),
  grouped('qwen3-235b-a22b', 94, 4, 128),
  latent('deepseek-v3', 61),
  latent('deepseek-r1', 61),
  alternating(grouped('gpt-oss-120b', 36, 8, 64), 128),
  grouped('mixtral-8x7b', 32, 8, 128),
];

export const MODEL_NAMES: readonly string[] = MODELS.map((model) => model.name);

export function modelByName(name: string): ModelSpec | undefined {
  return MODELS.find((model) => model.name === name);
}
