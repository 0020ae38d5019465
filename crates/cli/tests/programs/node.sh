# package: nodejs
# needs: /usr/bin/node
# what: workers, the pool for files and cryptography, a child
cat >n.js <<'N'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (!isMainThread) { let s = 0; for (let i = 0; i < 1e5; i++) s += i % workerData; parentPort.postMessage(s); }
else { const fs = require('fs').promises, c = require('crypto'), cp = require('child_process'); (async () => {
  console.log(await Promise.all([3, 5, 7, 11].map(n => new Promise((y, e) => new Worker(__filename, { workerData: n }).on('message', y).on('error', e)))));
  console.log((await Promise.all([...Array(8).keys()].map(i => new Promise(y => c.pbkdf2('p' + i, 's', 1000, 8, 'sha1', (e, k) => y(k.toString('hex'))))))).join());
  await Promise.all([...Array(20).keys()].map(i => fs.writeFile('f' + i, 'x'.repeat(i)))); console.log((await fs.readFile('f7')).length);
  console.log(cp.execSync('echo child').toString()); })(); }
N
run node n.js
