import CallCore

extension DivertingBench {
  @discardableResult
  mutating func asServer(_ request: AppRequest, _ user: String = "bob") -> AppCall? {
    let reply = owner.server(request, user)
    pump()
    if case .app(.call(let call)) = reply { return call }
    return nil
  }

  /// Bob's first device has all that was delivered to it.
  mutating func acknowledgeBob() {
    let session = CallCoreTests.Bench.session("b1")
    for case .deliver(session, let delivery) in effects {
      let item = Acknowledgement(call: delivery.call, version: delivery.version)
      owner.say(.ack([item]), device: "b1")
    }
    for (user, device) in [("dave", "1"), ("dave", "2")] {
      for delivery in deliveries(user, device) {
        owner.say(
          .ack([Acknowledgement(call: delivery.call, version: delivery.version)]), user: user,
          device: device, session: Self.session(user, device))
      }
    }
    let second = CallCoreTests.Bench.session("b2")
    for case .deliver(second, let delivery) in effects {
      owner.say(
        .ack([Acknowledgement(call: delivery.call, version: delivery.version)]), device: "b2")
    }
    pump()
  }
}
