/**
 * Adapter file of the official SDK of the Agent Client Protocol, an optional peer that is loaded on first use.
 *
 * It serves both roles: the client of an agent, and the agent of an editor (the bridge).
 */
import { fail } from '../wire/errors.ts';

export type {
  AgentCapabilities,
  AgentConnection,
  AgentContext,
  AuthenticateRequest,
  AuthMethod,
  AvailableCommand,
  ClientApp,
  ClientCapabilities,
  ClientConnection,
  ClientContext,
  ContentBlock,
  CreateElicitationRequest,
  CreateElicitationResponse,
  InitializeRequest,
  InitializeResponse,
  ListSessionsRequest,
  LoadSessionResponse,
  McpServer,
  NewSessionRequest,
  NewSessionResponse,
  PermissionOption,
  PermissionOptionKind,
  PromptRequest,
  PromptResponse,
  RequestPermissionRequest,
  RequestPermissionResponse,
  SessionConfigOption,
  SessionModeState,
  SessionUpdate,
  SetSessionConfigOptionRequest,
  StopReason,
  Stream,
  ToolCallContent,
  ToolCallUpdate,
  ToolKind,
} from '@agentclientprotocol/sdk';

/** The package. */
export type AcpSdk = typeof import('@agentclientprotocol/sdk');

const PACKAGE = '@agentclientprotocol/sdk';

/** Loads the SDK. Fails with `not_configured`, whose message names the package to install. */
export async function loadAcp(): Promise<AcpSdk> {
  try {
    return await import('@agentclientprotocol/sdk');
  } catch (error) {
    const missing = (error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND';
    const why = missing ? `it is not installed: npm install ${PACKAGE}` : (error as Error).message;
    throw fail('not_configured', `the Agent Client Protocol needs the package ${PACKAGE}; ${why}`, undefined, error);
  }
}
