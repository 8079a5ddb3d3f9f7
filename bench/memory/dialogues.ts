/**
 * Work on this repository in conversations, as two people and a model had them; `record-journals.ts` plays them through
 * real sessions. Tools are called for real; the model's words are from here. Some later turns change decisions of
 * earlier ones.
 */
export interface DialogueTurn {
  readonly prompt: string;
  readonly calls?: readonly { readonly name: string; readonly input: Readonly<Record<string, unknown>> }[];
  readonly text: string;
}

export interface Dialogue {
  readonly title: string;
  readonly turns: readonly DialogueTurn[];
}

const grep = (pattern: string, path: string) => [{ name: 'grep', input: { pattern, path } }];
const read = (path: string) => [{ name: 'read_file', input: { path, limit: 20 } }];

export const dialogues: readonly Dialogue[] = [
  {
    title: 'Port clash in the pipeline',
    turns: [
      {
        prompt: 'The pipeline fails since this morning with EADDRINUSE on 4330. What uses that port?',
        calls: grep('4330', 'docs'),
        text: 'Two jobs run on one machine and both start a server on its default port. Give each job `listen: ["tcp://127.0.0.1:0"]`, so that the system picks a free one.',
      },
      {
        prompt: 'Where would the test read the port from then?',
        text: 'From the first line that the server prints: it names the address it listens on. The test helper waits for that line.',
      },
      {
        prompt: 'Do it, and tell Mirela from the build team.',
        text: 'Changed in three test files. I wrote to Mirela: jobs no longer need a port of their own, so the two runners can share a machine again.',
      },
      {
        prompt: 'She asks which runner is the slow one.',
        text: 'The one called `heron`: it has two cores, `egret` has eight. Long suites belong on egret.',
      },
      {
        prompt: 'Then pin the fault tests to egret.',
        text: 'Done: the label of the fault suite is `egret` now. The quick gate stays on heron.',
      },
    ],
  },
  {
    title: 'The resume test fails one time in fifty',
    turns: [
      {
        prompt: 'test/contract/away fails sometimes with a gap of one entry. Find out why.',
        calls: grep('gap', 'docs/architecture.md'),
        text: 'The agent asks for the journal before the host has written the newest volatile entry. The entry is in memory, not lost: the read must wait for the writer thread.',
      },
      {
        prompt: 'Is it the same cause as last month, when Tobias saw duplicated events?',
        text: 'No. That was the cursor counted twice after a takeover, mended with a comparison by session. This one is about the order of a read and a write behind.',
      },
      {
        prompt: 'How do we show that it is mended?',
        text: 'A loop of two thousand reconnects with a delay in the writer. Before the change it failed after 61 rounds, afterwards it ran through in four minutes.',
      },
      {
        prompt: 'Four minutes is too long for the gate.',
        text: 'Then two hundred rounds there, and all two thousand at night. At two hundred the old code failed in nine of ten runs, which is enough to notice.',
      },
    ],
  },
  {
    title: 'Nightly run and backups',
    turns: [
      {
        prompt: 'Write down when what runs at night.',
        text: 'The nightly run starts at 02:00 and takes about ninety minutes. Backups of the data folder start at 03:00, so they overlap for half an hour.',
      },
      {
        prompt: 'Does the overlap hurt?',
        text: 'Yes: timings of the benchmarks after three o’clock are up to twice as high. Nothing fails, but the curves have a step there.',
      },
      {
        prompt: 'How is the journal backed up while the server writes?',
        calls: grep('backup', 'docs'),
        text: 'With `VACUUM INTO` from a connection of its own. Copying the file alone would miss what is in the write-ahead log.',
      },
      {
        prompt: 'How long do we store backups?',
        text: 'Fourteen days on the machine itself, and one of each month for a year on the storage box in Falkenstein.',
      },
      {
        prompt: 'Who gets the mail when a backup fails?',
        text: 'Henrike and the on-call phone. The mail has the exit code and the last twenty lines of the log.',
      },
    ],
  },
  {
    title: 'Which model makes the vectors',
    turns: [
      {
        prompt: 'We need an embedder for the memory of the support agents. What are the choices?',
        calls: grep('embedder', 'docs/memory.md'),
        text: 'Hashed n-grams are built in and know no synonyms. For meaning: nomic-embed-text with 768 numbers through Ollama, or bge-m3, which is slower and better in German.',
      },
      {
        prompt: 'The support agents answer in German and Polish.',
        text: 'Then bge-m3. I measured forty of their questions: it found the right ticket for thirty-one, nomic for twenty-four, hashed n-grams for nineteen.',
      },
      {
        prompt: 'Good. Settle on bge-m3.',
        text: 'Configured: the embedder of the support host is bge-m3 on port 11434. The 52,000 tickets that are stored already get their vectors tonight.',
      },
      {
        prompt: 'What does that cost us in memory?',
        text: 'The model takes 1.2 GB. The index of the host grows to some six megabytes, since it has only signatures of the vectors.',
      },
    ],
  },
  {
    title: 'Token of the dashboard leaked',
    turns: [
      {
        prompt: 'The token of the dashboard was in a screenshot. What now?',
        calls: grep('token_file', 'docs/security'),
        text: 'Write a new one into its token file and reload the configuration: sessions that were opened with the old one end at once. Nothing else has that token.',
      },
      {
        prompt: 'What could a stranger have done with it?',
        text: 'Read. The dashboard has the role observer: it lists sessions and tasks and cannot send prompts or approve anything.',
      },
      {
        prompt: 'Was it used from outside?',
        text: 'The audit has 212 lines of it since Friday, all from the address of the office. I verified the chain of hashes: no line is missing.',
      },
      {
        prompt: 'How often should we rotate tokens?',
        text: 'Every ninety days, and after each departure. I put a reminder into the calendar of the operators for the first Monday of the quarter.',
      },
    ],
  },
  {
    title: 'Tasks hang as parked',
    turns: [
      {
        prompt: 'Since noon fourteen tasks of the fleet are parked. Why?',
        calls: grep('parked', 'docs/fleet.md'),
        text: 'Their worker `lathe-2` refused all of them in preflight: the repository it should work in has changes that were never committed.',
      },
      {
        prompt: 'Whose changes are those?',
        text: 'An interrupted run of task 8841 left them; its worktree was not removed because the disk of lathe-2 was full.',
      },
      {
        prompt: 'Clean it up and run them again.',
        text: 'Removed the worktree, freed 40 GB of old artefacts, and retried all fourteen. Thirteen are done, one failed for a reason of its own: its branch no longer exists.',
      },
      {
        prompt: 'Can we be warned earlier?',
        text: 'Yes: the worker announces its free space; below ten gigabytes the router ranks it last. I set that threshold in fleet.yaml.',
      },
      {
        prompt: 'And drop the one with the missing branch.',
        text: 'Dropped task 8852 from the dead letters, with the note that its branch was merged and deleted by Tobias.',
      },
    ],
  },
  {
    title: 'The nightly run moves',
    turns: [
      {
        prompt: 'The step in the curves annoys me. Move the nightly run out of the way of the backups.',
        text: 'The nightly run starts at 04:30 now. Backups stay at three and are through before four, so nothing overlaps any more.',
      },
      {
        prompt: 'Does that still end before people come?',
        text: 'It ends at six. The first commits come at half past seven.',
      },
      {
        prompt: 'The storage box will be cancelled in autumn. What about the monthly backups?',
        text: 'They go to the bucket in Helsinki from now on, encrypted with age; the key is in the safe of the operators. The twelve that were in Falkenstein are copied.',
      },
    ],
  },
  {
    title: 'Names for the release',
    turns: [
      {
        prompt: 'Collect what the first release is called in the texts.',
        calls: read('CHANGELOG.md'),
        text: 'The changelog says Unreleased, the package 0.1.0, two pages say “first version”. I would say 0.1.0 everywhere.',
      },
      {
        prompt: 'Yes. And a code name?',
        text: 'You liked names of knots earlier: 0.1 would be Bowline. It appears in the announcement alone, not in the package.',
      },
      {
        prompt: 'Who writes the announcement?',
        text: 'Mirela drafts it, Henrike reads it for tone. The draft is due on the twelfth.',
      },
      {
        prompt: 'Which platforms do we promise?',
        text: 'Linux and macOS with Node 26. Windows runs the tests of the agent only, so we say “the agent also on Windows”.',
      },
    ],
  },
  {
    title: 'No space left on heron',
    turns: [
      {
        prompt: 'heron reports ENOSPC in the middle of the quick gate.',
        calls: grep('disk_full', 'docs/errors.md'),
        text: 'Its root volume has 20 GB, and caches of npm took twelve of them. The calls ended with disk_full as they should; no journal was damaged.',
      },
      {
        prompt: 'Make room, and see that it stays that way.',
        text: 'Deleted the cache, and a timer prunes it weekly to three gigabytes. heron has eleven gigabytes free.',
      },
      {
        prompt: 'Should the quick gate move as well?',
        text: 'I moved it: the quick gate runs on egret too, and heron only builds the documentation. It is faster by two minutes.',
      },
    ],
  },
  {
    title: 'Second thoughts about vectors',
    turns: [
      {
        prompt: 'Searches of the support agents take two seconds now. What happened?',
        text: 'The embedder: bge-m3 shares its GPU with the speech service since Tuesday, and each query waits for its vector.',
      },
      {
        prompt: 'Can we do with a smaller one?',
        text: 'With multilingual-e5-small it is 40 ms a query. On the same forty questions it finds twenty-nine tickets; bge-m3 found thirty-one.',
      },
      {
        prompt: 'Two tickets are worth it. Switch.',
        text: 'The embedder of the support host is multilingual-e5-small now. Vectors of 55,000 tickets were computed again in eleven minutes; searches used words alone meanwhile.',
      },
      {
        prompt: 'Tell me when German compounds are found badly.',
        text: 'I stored ten such questions as a test: Rechnungskorrekturbeleg and the like. Nine are found, the tenth has a typo in the ticket itself.',
      },
    ],
  },
];

/**
 * Questions about these conversations, in the words of their participants. The answer is a turn, by title and number
 * from 0.
 */
export const journalQuestions: readonly {
  readonly question: string;
  readonly title: string;
  readonly turn: number;
  /** For an answer that has changed: the turn with the earlier answer. */
  readonly stale?: { readonly title: string; readonly turn: number };
}[] = [
  { question: 'Why did two jobs get EADDRINUSE?', title: 'Port clash in the pipeline', turn: 0 },
  { question: 'How does a test learn on which port the server listens?', title: 'Port clash in the pipeline', turn: 1 },
  { question: 'How many cores does heron have?', title: 'Port clash in the pipeline', turn: 3 },
  { question: 'On which runner are the fault tests?', title: 'Port clash in the pipeline', turn: 4 },
  { question: 'What caused the flaky resume test?', title: 'The resume test fails one time in fifty', turn: 0 },
  {
    question: 'What was wrong when Tobias saw events twice?',
    title: 'The resume test fails one time in fifty',
    turn: 1,
  },
  { question: 'How many reconnects are in the gate?', title: 'The resume test fails one time in fifty', turn: 3 },
  { question: 'How do I copy the journal of a running server?', title: 'Nightly run and backups', turn: 2 },
  { question: 'Whom does a failing backup notify?', title: 'Nightly run and backups', turn: 4 },
  { question: 'When do backups start?', title: 'The nightly run moves', turn: 0 },
  {
    question: 'When does the nightly run start?',
    title: 'The nightly run moves',
    turn: 0,
    stale: { title: 'Nightly run and backups', turn: 0 },
  },
  {
    question: 'Where are the monthly backups stored?',
    title: 'The nightly run moves',
    turn: 2,
    stale: { title: 'Nightly run and backups', turn: 3 },
  },
  {
    question: 'Which embedder does the support host have?',
    title: 'Second thoughts about vectors',
    turn: 2,
    stale: { title: 'Which model makes the vectors', turn: 2 },
  },
  {
    question: 'On which runner is the quick gate?',
    title: 'No space left on heron',
    turn: 2,
    stale: { title: 'Port clash in the pipeline', turn: 4 },
  },
  { question: 'How much memory does bge-m3 need?', title: 'Which model makes the vectors', turn: 3 },
  { question: 'Which embedder is good for German and Polish?', title: 'Which model makes the vectors', turn: 1 },
  {
    question: 'What can an attacker do with the token of the dashboard?',
    title: 'Token of the dashboard leaked',
    turn: 1,
  },
  { question: 'Was the leaked token used by strangers?', title: 'Token of the dashboard leaked', turn: 2 },
  { question: 'How often are tokens changed?', title: 'Token of the dashboard leaked', turn: 3 },
  { question: 'Why did lathe-2 refuse its tasks?', title: 'Tasks hang as parked', turn: 0 },
  { question: 'What happened to task 8852?', title: 'Tasks hang as parked', turn: 4 },
  { question: 'At how much free disk space is a worker ranked last?', title: 'Tasks hang as parked', turn: 3 },
  { question: 'What is the code name of the release?', title: 'Names for the release', turn: 1 },
  { question: 'Who proofreads the announcement?', title: 'Names for the release', turn: 2 },
  { question: 'Do we support Windows?', title: 'Names for the release', turn: 3 },
  { question: 'What filled the disk of heron?', title: 'No space left on heron', turn: 0 },
  { question: 'Why were searches of the support agents slow?', title: 'Second thoughts about vectors', turn: 0 },
  { question: 'Which test has Rechnungskorrekturbeleg?', title: 'Second thoughts about vectors', turn: 3 },
];
