internal import CallCore
internal import CallMachine
internal import CallWire

/// The properties with which a call is placed, besides the callee.
public struct PlaceOptions: Sendable {
  /// nil: one is drawn.
  public var id: CallID?
  /// The session description (SDP), an offer; at most 65,536 bytes.
  public var description = ""
  public var video = false
  public var headers: [Header] = []
  /// For the callee's apps, in pushes that ring and in the invite; at most 1024 bytes.
  public var pushData = ""
  /// 5 to 180; nil: the app's own.
  public var ringTimeoutSeconds: UInt32?

  public init() {}

  /// - Parameters:
  ///   - description: see the property.
  ///   - video: whether the caller wants video; the callee's apps see it in the invite.
  public init(description: String, video: Bool = false) {
    (self.description, self.video) = (description, video)
  }
}

// Methods that send a command throw a `CallmeshError`: the cluster's refusal, `tryAgain` if no reply came after all
// attempts, `notAttached` if a call found no connection in time, `rateLimited` if too many commands wait, or `stopped`.
// They wait over a reconnect if need be.
extension Device {
  /// Calls a user or a group.
  /// - Returns: the call, at once; ``Call/placed()`` waits until the cluster has it.
  /// - Throws: `stopped`, `rateLimited`, `callIDTaken`, `invalidCallee`, or that a text is too long.
  public func place(
    _ callee: String, _ options: PlaceOptions = PlaceOptions()
  ) throws(CallmeshError) -> Call {
    guard IdentifierRules.isUser(callee) else { throw CallmeshError(.invalidCallee) }
    try TextRules.check(options.description, 65_536, .descriptionTooLarge)
    try TextRules.check(options.pushData, 1024, .pushDataTooLarge)
    let id = options.id ?? .random()
    let request = PlaceRequest(
      call: id, ringTimeoutSeconds: options.ringTimeoutSeconds ?? 0,
      description: options.description, headers: options.headers, video: options.video,
      pushData: options.pushData)
    let address = Address(callee: callee, call: id)
    return try begin(.place(address, request), address)
  }

  /// Takes up a call that this device placed in a former run of the app; see ``liveCalls()``.
  /// - Throws: as ``place(_:_:)``.
  public func resume(_ address: Address) throws(CallmeshError) -> Call {
    try begin(.call(address, .resume), address)
  }

  private func begin(_ command: ClientCommand, _ address: Address) throws(CallmeshError) -> Call {
    let engine = engine
    let result = engine.run { core in
      Result { () throws(CallmeshError) in try core.place(command, address, engine) }
    }
    return try result.get()
  }

  /// Ends a call that this device placed in a former run of the app, instead of taking it up.
  /// - Returns: the call's state.
  @discardableResult
  public func end(_ address: Address) async throws(CallmeshError) -> Call.Reported {
    Call.Reported(try await engine.state(.call(address, .hangUp)))
  }

  /// Takes an answered call over from another device of the user.
  /// - Parameters:
  ///   - ongoing: as in ``ongoing``.
  ///   - description: a new session description, an offer.
  /// - Returns: the call; nil: another device took it first, or it is over.
  public func pull(
    _ ongoing: OngoingCall, description: String = ""
  ) async throws(CallmeshError) -> Call? {
    try await pull(
      Address(callee: ongoing.callee, call: ongoing.call), from: ongoing.device.text,
      description: description)
  }

  /// The same, for a call of which only the address is known, and the device that has it.
  public func pull(
    _ address: Address, from device: String, description: String = ""
  ) async throws(CallmeshError) -> Call? {
    try TextRules.check(description, 65_536, .descriptionTooLarge)
    let request = PullRequest(from: DeviceID(device), description: description)
    guard case .answer(let won, _) = try await engine.send(.call(address, .pull(request))) else {
      throw .strangeReply
    }
    return won ? find(address.call) : nil
  }
}

extension DeviceCore {
  /// A call that this device places or resumes.
  func place(
    _ command: ClientCommand, _ address: Address, _ engine: DeviceEngine
  ) throws(CallmeshError) -> Call {
    guard calls[address.call] == nil, machine?.calls[address.call] == nil else {
      throw CallmeshError(.callIDTaken)
    }
    let call = Call(address, CallProgress(.placing, .caller), engine)
    try submit(command, Waiting(call: call) { call.placing.settle($0) })
    return add(call)
  }

  /// A push announced a call.
  func wake(_ address: Address, isWanted: Bool, _ engine: DeviceEngine) -> Call? {
    let known = calls[address.call]
    if isWanted, let known {
      known.want()
      if known.state == .ringing { events.send(.wanted(known)) }
    }
    if let known, known.state != .waking { return known }
    // A call that is over here stays so.
    guard known != nil || machine?.calls[address.call].map({ $0.phase == .unknown }) ?? true
    else { return nil }
    let callee = address.callee.isEmpty ? user : address.callee
    let call =
      known
      ?? add(
        Call(Address(callee: callee, call: address.call), CallProgress(.waking, .callee), engine))
    if isWanted { call.want() }
    woken(for: address)
    return call
  }
}

/// Sizes that the cluster refuses: checked here, so that the error comes at once.
enum TextRules {
  static func check(
    _ text: String, _ bytesMax: Int, _ code: CallmeshError.Code
  ) throws(CallmeshError) {
    guard text.utf8.count <= bytesMax else {
      throw CallmeshError(code, "The text has more than \(bytesMax) bytes.")
    }
  }
}
