internal import CCallProto
public import CallCore

/// Bodies as clients write and read them.
extension HTTPBodies {
  /// The body of `POST /v1/devices`.
  public static func encode(_ body: Register) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__Register.self, body, .register)
  }

  /// The body of a decline or busy.
  public static func encode(_ body: Decline) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__RefusalBody.self, body, .refusal)
  }

  /// Reads an edge's answer about a call. nil for what is none.
  public static func readCallState(_ bytes: [UInt8]) -> CallState? {
    answer(Callmesh__V1__CallState.self, bytes, .callState)
  }

  /// Reads an edge's answer to a registration. nil for what is none.
  public static func readRegistered(_ bytes: [UInt8]) -> RegisteredInfo? {
    let info = answer(Callmesh__V1__Registered.self, bytes, .registered)
    guard let info, !info.device.text.isEmpty else { return nil }
    return info
  }

  /// Reads an edge's answer about a history. nil for what is none.
  public static func readHistory(_ bytes: [UInt8]) -> HistoryPage? {
    answer(Callmesh__V1__HistoryPage.self, bytes, .history)
  }

  /// The body that marks a history as read.
  public static func encode(readUpTo cursor: HistoryCursor) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__HistoryRead.self, .markRead(upTo: cursor), .historyRead)
  }

  /// Reads an edge's answer about rules. nil for what is none.
  public static func readUserRules(_ bytes: [UInt8]) -> UserRules? {
    answer(Callmesh__V1__UserRules.self, bytes, .userRules)
  }

  /// Reads an edge's answer to an app's server about a user. nil for what is none.
  public static func readAppUser(_ bytes: [UInt8]) -> AppUser? {
    let user = answer(Callmesh__V1__AppUser.self, bytes, .appUser)
    return user?.user.isEmpty == false ? user : nil
  }

  /// Reads an edge's answer to an app's server about live calls. nil for what is none.
  public static func readAppCalls(_ bytes: [UInt8]) -> AppCalls? {
    answer(Callmesh__V1__AppCalls.self, bytes, .appCalls)
  }

  /// Reads an edge's answer to an app's server about a call. nil for what is none.
  public static func readAppCall(_ bytes: [UInt8]) -> AppCall? {
    answer(Callmesh__V1__AppCall.self, bytes, .appCall)
  }

  /// Reads an edge's answer to an app's server about a group. nil for what is none.
  public static func readCallGroup(_ bytes: [UInt8]) -> CallGroup? {
    answer(Callmesh__V1__CallGroup.self, bytes, .callGroup)
  }

  /// Reads an edge's answer to an app's server about a user's name; empty: there is none. nil for what is none.
  public static func readDisplayName(_ bytes: [UInt8]) -> String? {
    answer(Callmesh__V1__DisplayName.self, bytes, .displayName)
  }

  /// Reads an error of an edge. nil for what is none, as an answer of something between.
  public static func readError(_ bytes: [UInt8]) -> CallError? {
    answer(Callmesh__V1__ErrorBody.self, bytes, .error)
  }

  private static func answer<Message: Mapping>(
    _ message: Message.Type, _ bytes: [UInt8], _ shape: MessageShape
  ) -> Message.Value? {
    unsafe bytes.withUnsafeBytes { try? MessageReader.value(message, $0, shape) }
  }
}
