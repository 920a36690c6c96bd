import { parentPort, workerData } from 'node:worker_threads';
import type { Stretch } from '../explore/campaign.ts';
import { openStretches, type StretchSetup } from './stretches.ts';

/** A thread of `check --jobs`: each message is a stretch of the campaign, and is answered with what it showed. */

const run = await openStretches(workerData as StretchSetup);

parentPort!.on('message', (stretch: Stretch) => parentPort!.postMessage(run(stretch)));
