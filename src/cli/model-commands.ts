/** The commands about models and their providers: `model` and `auth`. */
import { type Act, type Command, configOption, jsonOption, reaching, thinkingOption } from './options.ts';

const ABOUT_PROVIDERS = `
Providers: openai, openrouter, anthropic, google, compatible (a server of the OpenAI chat API), antigravity.
A key is typed, or piped in; it is stored in the keyring of the system where there is one. docs/models.md has more.`;

export function addModels(program: Command, act: (action: Act) => Promise<void>): void {
  const model = program.command('model').description('list, choose and try the models of sessions');
  const models = () => import('./commands/model.ts');
  reaching(model.command('ls'))
    .description('list the models of the providers that can be used; * is the one of new sessions')
    .option('--provider <name>', 'only those of this provider')
    .addOption(configOption())
    .addOption(jsonOption())
    .action((flags) => act(async (terminal) => (await models()).modelList(flags, terminal)));
  reaching(model.command('use <model>'))
    .description('choose the model of sessions without a choice of their own: ID or PROVIDER/ID')
    .addOption(thinkingOption())
    .addOption(configOption())
    .addOption(jsonOption())
    .action((name, flags) => act(async (terminal) => (await models()).modelUse(name, flags, terminal)));
  reaching(model.command('test [model]'))
    .description('ask a model for one word, by default the one of new sessions')
    .addOption(configOption())
    .addOption(jsonOption())
    .action((name, flags) => act(async (terminal) => (await models()).modelTest(name, flags, terminal)));

  const auth = program
    .command('auth')
    .description('store keys of model providers, or sign in')
    .addHelpText('after', ABOUT_PROVIDERS);
  const auths = () => import('./commands/auth.ts');
  reaching(auth.command('login <provider>'))
    .description('store a key, or sign in (openai at a terminal, antigravity)')
    .option('--key', 'openai: a key in place of the sign-in')
    .option('--device', 'openai: sign in with a code on another device')
    .option('--base-url <url>', 'the address the key is for')
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText('after', ABOUT_PROVIDERS)
    .action((provider, flags) => act(async (terminal) => (await auths()).authLogin(provider, flags, terminal)));
  reaching(auth.command('logout <provider>'))
    .description('remove the stored key or sign-in of a provider')
    .addOption(configOption())
    .addOption(jsonOption())
    .action((provider, flags) => act(async (terminal) => (await auths()).authLogout(provider, flags, terminal)));
  reaching(auth.command('ls'))
    .description('list the providers, and the ways to use each')
    .addOption(configOption())
    .addOption(jsonOption())
    .action((flags) => act(async (terminal) => (await auths()).authList(flags, terminal)));
}
