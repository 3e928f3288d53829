internal import CCallProto
public import CallCore

extension HTTPBodies {
  /// The body of `POST /v1/app/calls`.
  public struct PlaceCall: Sendable, Equatable {
    /// nil: the server chooses one.
    public var call: CallID?
    /// The user whose devices ring first.
    public var from: String
    /// The only device of `from` that rings; nil: all of them.
    public var device: DeviceID?
    /// The user whose devices ring once `from` has answered.
    public var to: String
    public var video = false
    /// 0 stands for the cluster's.
    public var ringTimeoutSeconds: UInt32 = 0
    public var headers: [CustomHeader] = []
    public var pushData = ""
    /// The display name of `to`.
    public var callerName = ""
    public init(call: CallID? = nil, from: String, to: String) {
      self.call = call
      self.from = from
      self.to = to
    }

    /// - Parameter call: the id where the body has none.
    public func request(_ call: CallID) -> AppPlacing {
      let request = PlaceRequest(
        call: self.call ?? call, ringTimeoutSeconds: ringTimeoutSeconds, headers: headers,
        video: video, callerName: DisplayName.shown(callerName), pushData: pushData)
      return AppPlacing(request, caller: to, device: device)
    }
  }

  /// Form and sizes are checked as those of a device's `place`.
  /// - Throws: `malformedFrame`, `invalidField`, `invalidCallee`, `invalidDevice`, `headersTooLarge`, `pushDataTooLarge`.
  public static func placeCall(_ bytes: [UInt8], _ limits: CallLimits) throws(CallError)
    -> PlaceCall
  {
    let body = try read(Callmesh__V1__AppPlaceBody.self, bytes, .appPlace)
    guard IdentifierRules.isUser(body.from) else { throw CallError(.invalidCallee) }
    try check(body.device)
    let place = body.request(body.call ?? CallID(high: 0, low: 0)).request
    _ = try FrameRules(limits: limits).checked(
      ClientFrame(id: 1, command: .place(CallAddress(callee: body.to, call: place.call), place)))
    guard IdentifierRules.isUser(body.to) else { throw CallError(.invalidCallee) }
    return body
  }

  /// As an app's server writes it.
  public static func encode(_ body: PlaceCall) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__AppPlaceBody.self, body, .appPlace)
  }
}
