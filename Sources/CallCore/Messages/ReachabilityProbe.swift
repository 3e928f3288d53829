/// An edge's own probe: a query for a call that does not exist, in the name of a user that does not exist. It needs
/// no ticket. Any reply shows that a shard can be reached.
extension Command {
  private static let nobodysApp = "callmesh"

  public static func reachabilityProbe(_ number: UInt64, session: SessionRef) -> Command {
    let nobody = UserKey(app: nobodysApp, user: "reach-\(number)")
    return Command(
      session: session, request: number, user: nobody, device: DeviceID("edge"), callee: nobody,
      body: .call(CallID(high: 0, low: number), .query))
  }

  public var isReachabilityProbe: Bool {
    guard case .call(let call, .query) = body, call.high == 0 else { return false }
    return user.app == Self.nobodysApp && callee == user && device.text == "edge"
  }
}
