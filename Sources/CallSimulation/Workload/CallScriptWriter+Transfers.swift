internal import CallCore
internal import CallJudge

/// Calls of which a side is handed over, or that the app's server places.
extension CallScriptWriter {
  /// One side after the other hands the call over, takes that back now and then, or loses its connection meanwhile.
  mutating func fillTransfers() {
    answerSoon()
    var at = 0
    for _ in 0..<random.number(1...3) {
      at += random.number(300...5000)
      let who = oneSide()
      addFromAnswer(at, who, .transfer)
      switch random.below(8) {
      case 0: addFromAnswer(at + random.number(0...3000), who, .say(.cancelTransfer))
      case 1: addFromAnswer(at + random.number(0...1500), who, breakLink())
      case 2: addFromAnswer(at + random.number(0...2500), oneSide(), .hangUp)
      case 3: addFromAnswer(at + random.number(0...60), oneSide(), .transfer)
      case 4: addFromAnswer(at + random.number(0...2000), oneSide(), .pull(1))
      default: break
      }
      for _ in 0..<random.below(3) {
        addFromAnswer(at + random.number(0...4000), oneSide(), .signal)
      }
    }
    addFromAnswer(at + random.number(500...9000), oneSide(), .hangUp)
  }

  /// One side asks somebody and hands the call over. Now and then the call ends meanwhile, or somebody else gets it.
  mutating func fillConsulting() {
    answerSoon()
    let (at, who) = (random.number(300...2000), oneSide())
    addFromAnswer(at, who, .consult)
    switch random.below(6) {
    case 0: addFromAnswer(at + random.number(500...4000), oneSide(), .hangUp)
    case 1: addFromAnswer(at + random.number(500...4000), who, breakLink())
    case 2: addFromAnswer(at + random.number(500...4000), oneSide(), .transfer)
    case 3: addFromAnswer(at + random.number(500...4000), oneSide(), .pull(1))
    default: break
    }
    addFromAnswer(at + random.number(4000...12000), oneSide(), .hangUp)
  }

  /// Mostly one device answers. Then the side that waits hangs up now and then before the other one is there, or loses
  /// its connection, or sends signals to a vacant side.
  mutating func fillPlacedByServer() {
    switch random.below(8) {
    case 0: add(soon, one, .say(.decline(.everywhere)), ifRinging: true)
    case 1: everybody(from: 200, .say(.busy), .answer)
    case 2: break
    case 3:
      for device in 0..<devices { add(soon, .callee(device), .answer, ifRinging: true) }
    default: answerSoon()
    }
    for _ in 0..<random.below(3) { addFromAnswer(random.below(3000), .winner, .signal) }
    switch random.below(8) {
    case 0, 1: addFromAnswer(random.number(0...2500), .winner, .hangUp)
    case 2: addFromAnswer(random.number(0...2500), .winner, breakLink())
    case 3: addFromAnswer(random.number(0...2500), .winner, .pull(1))
    default: break
    }
    addFromAnswer(random.number(3000...14000), oneSide(), .hangUp)
  }
}
