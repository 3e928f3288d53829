internal import CCallProto
public import CallCore

/// Bodies of the HTTP routes: JSON, the same shapes as in frames.
public enum HTTPBodies {
  /// The most bytes a request's body may have.
  public static let bytesMaximum = 65_536

  // MARK: Answers

  /// `{"call":{…},"phase":"ringing",…}`
  public static func callState(_ state: CallState) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__CallState.self, state, .callState)
  }

  /// `{"error":{"code":…,"name":…,"message":…}}`
  public static func error(_ error: CallError) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__ErrorBody.self, error, .error)
  }

  /// `{"device":…,"expiresAtMs":…,"removedDevices":[…],"capabilities":[…]}`
  public static func registered(_ info: RegisteredInfo) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__Registered.self, info, .registered)
  }

  /// `{"entries":[{…}],"next":…,"cursor":…,"unread":…}`
  public static func history(_ page: HistoryPage) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__HistoryPage.self, page, .history)
  }

  /// `{"always":{"users":[…]},…,"changedAtMs":…}`
  public static func userRules(_ rules: UserRules) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__UserRules.self, rules, .userRules)
  }

  /// `{"user":…,"devices":[…],"calls":[…]}`, `{"calls":[…],"next":…}` or `{"state":{…},"caller":{…},…}`
  public static func app(_ reply: AppReply) -> [UInt8] {
    switch reply {
    case .user(let user): MessageWriter.bytes(Callmesh__V1__AppUser.self, user, .appUser)
    case .calls(let calls): MessageWriter.bytes(Callmesh__V1__AppCalls.self, calls, .appCalls)
    case .call(let call): MessageWriter.bytes(Callmesh__V1__AppCall.self, call, .appCall)
    case .group(let group): callGroup(group)
    case .name(let name): displayName(name)
    }
  }

  /// `{"users":[…],"order":"inTurn","turnSeconds":…}`
  public static func callGroup(_ group: CallGroup) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__CallGroup.self, group, .callGroup)
  }

  /// `{"name":"Ann Lee"}`, or `{}` where there is none.
  public static func displayName(_ name: String) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__DisplayName.self, name, .displayName)
  }

  // MARK: Requests

  /// The body of `PUT /v1/app/users/{user}/name`.
  /// - Returns: what is shown of the name; empty: it is to be removed.
  /// - Throws: `malformedFrame`, `invalidField`.
  public static func displayName(_ bytes: [UInt8]) throws(CallError) -> String {
    DisplayName.shown(try read(Callmesh__V1__DisplayName.self, bytes, .displayName))
  }

  /// The body of `PUT /v1/app/groups/{group}`.
  /// - Throws: `malformedFrame`, `invalidField`, `invalidRules`.
  public static func callGroup(_ bytes: [UInt8]) throws(CallError) -> CallGroup {
    let group = try read(Callmesh__V1__CallGroup.self, bytes, .callGroup)
    try group.check()
    return group
  }

  /// The body of `POST /v1/history/read`.
  /// - Throws: `malformedFrame`, `invalidField`.
  public static func historyRead(_ bytes: [UInt8]) throws(CallError) -> HistoryCommand {
    try read(Callmesh__V1__HistoryRead.self, bytes, .historyRead)
  }

  /// The body of `PUT /v1/rules` and `PUT /v1/app/users/{user}/rules`.
  /// - Throws: `malformedFrame`, `invalidField`, `invalidRules`.
  public static func userRules(_ bytes: [UInt8]) throws(CallError) -> UserRules {
    let rules = try read(Callmesh__V1__UserRules.self, bytes, .userRules)
    try rules.check()
    return rules
  }

  /// The body of `POST /v1/devices`.
  public struct Register: Sendable, Equatable {
    /// nil: the device that the token names.
    public var device: DeviceID?
    public var request: RegistrationRequest
    public init(device: DeviceID?, request: RegistrationRequest) {
      self.device = device
      self.request = request
    }
  }

  /// - Returns: the push tokens in their one form.
  /// - Throws: `malformedFrame`, `invalidField`, `invalidDevice`, `invalidPushToken`,
  ///   `unknownDialect`, `unknownCapability`.
  public static func register(_ bytes: [UInt8]) throws(CallError) -> Register {
    var body = try read(Callmesh__V1__Register.self, bytes, .register)
    try check(body.device)
    body.request = try RegistrationRules.normalised(body.request)
    return body
  }

  /// The body of `POST /v1/calls/{callee}/{call}/decline`. That of `busy` is the same without a scope.
  public struct Decline: Sendable, Equatable {
    /// nil: the device that the token names.
    public var device: DeviceID?
    public var scope: DeclineScope
    /// The push's capability, for clients that cannot set headers; empty where the body does not hold it.
    public var capability: String
    public init(device: DeviceID? = nil, scope: DeclineScope = .everywhere, capability: String = "")
    {
      self.device = device
      self.scope = scope
      self.capability = capability
    }
  }

  /// No body: the token's device, everywhere.
  /// - Throws: `malformedFrame`, `invalidField`, `invalidDevice`.
  public static func decline(_ bytes: [UInt8]) throws(CallError) -> Decline {
    guard !bytes.isEmpty else { return Decline() }
    let body = try read(Callmesh__V1__RefusalBody.self, bytes, .refusal)
    try check(body.device)
    return body
  }

  // MARK: Parts

  static func read<Message: Mapping>(
    _ message: Message.Type, _ bytes: [UInt8], _ shape: MessageShape
  ) throws(CallError) -> Message.Value {
    guard bytes.count <= bytesMaximum else {
      throw CallError(.frameTooLarge, "The body is larger than \(bytesMaximum) bytes.")
    }
    do throws(Fault) {
      return unsafe try bytes.withUnsafeBufferPointer { (bytes) throws(Fault) in
        try MessageReader.value(message, UnsafeRawBufferPointer(bytes), shape, memoryPerByte: 16)
      }
    } catch {
      throw CallError(body: error)
    }
  }

  static func check(_ device: DeviceID?) throws(CallError) {
    if let device { try FieldRules.checkDeviceID(device.text) }
  }
}

/// Bodies that hold a capability are printed without it.
extension HTTPBodies.Decline: CustomStringConvertible, CustomReflectable {
  public var description: String { "Decline(\(device?.text ?? ""), \(scope))" }
  public var customMirror: Mirror {
    Mirror(self, children: ["device": device?.text ?? "", "scope": "\(scope)"])
  }
}

extension CallError {
  /// The error for an HTTP body that could not be read.
  fileprivate init(body fault: Fault) {
    switch fault {
    case .malformed: self.init(.malformedFrame, "The body is not JSON of the expected form.")
    case .unknownCapability: self.init(Code.unknownCapability)
    case .field, .missing, .unknownMember, .secondCommand, .laterFormat:
      self.init(.invalidField, fault.sentence)
    }
  }
}
