public import CallAuth

/// By what a coordinator judges who speaks: tokens, what it makes of them, and what pushes allow.
public struct CommandAuthority: Sendable {
  public var tokens: TokenAuthority
  public var tickets: TicketKeyring
  public var pushKeys: PushKeyring

  public init(tokens: TokenAuthority, tickets: TicketKeyring, pushKeys: PushKeyring) {
    self.tokens = tokens
    self.tickets = tickets
    self.pushKeys = pushKeys
  }
}
