import type { RdmaBackendConfig } from './rdma-config.ts';

/**
 * Settings of the backends that copy between GPUs (mori-io.md A16): XGMI and FABRIC have the same two. They size pools
 * that grow when they run out, so no transfer depends on them; 0 and below take the default.
 */
export interface XgmiBackendConfig {
  /** Streams of each device, taken in turn. */
  readonly numStreams: number;
  /** Events of each device made in advance. */
  readonly numEvents: number;
}

export type FabricBackendConfig = XgmiBackendConfig;

export const XGMI_DEFAULTS: XgmiBackendConfig = { numStreams: 64, numEvents: 64 };

/** What CreateBackend takes; what is absent has its default. */
export type BackendConfig = Partial<RdmaBackendConfig> | Partial<XgmiBackendConfig>;

/** The settings as a backend holds them. */
export function copyConfig(wanted: BackendConfig): XgmiBackendConfig {
  const { numStreams, numEvents }: XgmiBackendConfig = { ...XGMI_DEFAULTS, ...wanted };
  return {
    numStreams: numStreams > 0 ? numStreams : XGMI_DEFAULTS.numStreams,
    numEvents: numEvents > 0 ? numEvents : XGMI_DEFAULTS.numEvents,
  };
}
