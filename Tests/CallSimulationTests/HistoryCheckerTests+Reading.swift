import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Lists of live calls and histories, as the app's server and devices read them.
extension HistoryCheckerTests {
  private var other: CallID { CallID(high: 3, low: 3) }

  private func listed(_ id: CallID, _ at: Timestamp? = nil) -> AppCall {
    AppCall(
      state: CallState(call: id, callee: "bob", phase: .ringing), caller: party(alice),
      placedAt: at ?? self.at(0))
  }

  private func told(
    _ calls: [AppCall], next: AppCallPlace? = nil, before: AppCallPlace? = nil,
    of user: String? = nil,
    since: Int64
  ) -> HistoryEvent {
    let errand = user.map { AppErrand.calls(of: $0) } ?? .live(before: before)
    return .server(.answered(errand, .calls(AppCalls(calls, next: next)), since: at(since)))
  }

  /// Both ring, at 5 s.
  private func two(_ bench: inout Bench) {
    bench.journal(call, placed)
    bench.journal(other, placed)
    bench.now = 5
  }

  @Test("a list has the calls that are live, each once, in their order") func wholeList() {
    for user in [nil, "bob", "alice"] as [String?] {
      #expect(
        judge {
          two(&$0)
          $0.note(told([listed(call), listed(other)], of: user, since: 4))
        } == nil)
      #expect(
        judge {
          two(&$0)
          $0.note(told([listed(call)], of: user, since: 4))
        } == .listsWhole)
    }
    #expect(
      judge {
        two(&$0)
        $0.note(told([], of: "carol", since: 4))
      } == nil)
    #expect(
      judge {
        two(&$0)
        $0.note(told([listed(other), listed(call)], since: 4))
      } == .listsWhole)
    #expect(
      judge {
        two(&$0)
        $0.note(told([listed(call), listed(call)], since: 4))
      } == .listsWhole)
    #expect(
      judge {
        two(&$0)
        $0.note(told([listed(call), listed(other, at(1))], since: 4))
      } == .oneStory)
    #expect(
      judge {
        two(&$0)
        $0.note(told([listed(CallID(high: 9, low: 9))], since: 4))
      }
        == .appendThenSpeak)
  }

  @Test("a call that was placed or ended meanwhile may be listed, or not") func meanwhile() {
    #expect(
      judge {
        two(&$0)
        $0.note(told([listed(call)], since: 0))
      } == nil)
    func withEnd(_ bench: inout Bench) {
      two(&bench)
      bench.say(alice, 2, .call(.init(callee: "bob", call: other), .cancel))
      bench.journal(other, ended(.cancelled, by: alice))
      bench.now = 7
    }
    for list in [[listed(call)], [listed(call), listed(other)]] {
      #expect(
        judge {
          withEnd(&$0)
          $0.note(told(list, since: 5))
        } == nil)
    }
    #expect(
      judge {
        withEnd(&$0)
        $0.note(told([listed(call), listed(other)], since: 6))
      } == .listsWhole)
  }

  @Test("a page has what lies between two places") func pages() {
    let place = listed(call).place
    #expect(
      judge {
        two(&$0)
        $0.note(told([listed(call)], next: place, since: 4))
      } == nil)
    #expect(
      judge {
        two(&$0)
        $0.note(told([listed(other)], before: place, since: 4))
      } == nil)
    #expect(
      judge {
        two(&$0)
        $0.note(told([], before: place, since: 4))
      } == .listsWhole)
    #expect(
      judge {
        two(&$0)
        $0.note(told([listed(call)], before: place, since: 4))
      } == .listsWhole)
  }

  @Test("only the device rings that the server chose") func chosenDevice() {
    var body = HTTPBodies.PlaceCall(call: call, from: "bob", to: "carol")
    body.device = "b1"
    func asked(_ bench: inout Bench, _ only: DeviceID?, _ legs: [Who]) {
      guard case .placed(var facts) = placed else { return }
      facts.caller = Party(user: "carol", device: "")
      facts.callerRings = .seconds(30)
      (facts.onlyDevice, facts.legs) = (only, legs.map(party))
      bench.note(.server(.asked(.place(body))))
      bench.journal(call, .placed(facts))
    }
    #expect(judge { asked(&$0, "b1", [bob1]) } == nil)
    #expect(judge { asked(&$0, nil, [bob1]) } == .placedAsAsked)
    #expect(judge { asked(&$0, "b1", [bob1, bob2]) } == .placedAsAsked)
    #expect(
      judge {
        asked(&$0, "b1", [bob1])
        $0.journal(call, .legJoined(party(bob2)))
      }
        == .placedAsAsked)
  }

  // MARK: Histories

  /// Bob has an entry since 5 s.
  private func withEntry(_ bench: inout Bench) {
    bench.say(bob1, 5, .call(.init(call: call), .answer(description: "")))
    bench.say(alice, 2, .call(.init(callee: "bob", call: call), .hangUp))
    bench.journal(call, placed, answered(bob1))
    bench.journal(call, ended(.hungUp, by: alice))
    bench.now = 5
    bench.note(.remembered(UserKey(app: "demo", user: "bob"), 7, .entry(entry)))
    bench.now = 8
  }

  private var entry: HistoryEntry {
    HistoryEntry(
      call: call, callee: "bob", isPlaced: false, peer: "alice", peerName: "ALICE of sim",
      device: "b1", placedAt: at(0), answeredAt: at(1), endedAt: at(2), reason: .hungUp)
  }

  private func page(_ items: [HistoryPage.Item], _ cursor: UInt64) -> HistoryPage {
    HistoryPage(items: items, state: HistoryState(cursor: HistoryCursor(cursor)))
  }

  @Test("a page of a history is what the store had at some moment since the request")
  func pageOfHistory() {
    func told(_ page: HistoryPage, since: Int64) -> HistoryEvent {
      .server(.answered(.history(before: nil, of: "bob"), .history(page), since: at(since)))
    }
    var bench = Bench()
    withEntry(&bench)
    let found = bench.found
    let log = HistoryLog([(HistoryCursor(7), .entry(entry))], entriesMax: 10)
    let whole = log.page(before: nil, limit: 5)
    for (page, since, rule) in [
      (whole, 6, nil), (whole, 4, nil), (HistoryPage(), 4, nil), (HistoryPage(), 6, .historySeen),
      (page([], 7), 6, .historySeen),
    ] as [(HistoryPage, Int64, HistoryRule?)] {
      var next = bench
      next.found = nil
      next.note(told(page, since: since))
      #expect(
        next.found == rule,
        "\(page.items.count), since \(since); before: \(String(describing: found))")
      // A device is answered the same.
      next = bench
      next.found = nil
      next.now = since
      next.say(bob2, 9, .history(.list(before: nil, limit: 5)))
      next.now = 8
      next.hear(bob2, .reply(id: 9, .history(page)))
      #expect(next.found == rule)
    }
  }

  @Test("who marks a history as read is told what the store has") func marks() {
    func told(_ readUpTo: UInt64) -> HistoryEvent {
      var page = page([], 7)
      page.readUpTo = HistoryCursor(readUpTo)
      if readUpTo > 0 { page.state.cursor = HistoryCursor(8) }
      return .server(
        .answered(.markRead(HistoryCursor(7), of: "bob"), .history(page), since: at(6)))
    }
    var bench = Bench()
    withEntry(&bench)
    bench.found = nil
    for (readUpTo, isStored, rule) in [
      (7, true, nil), (7, false, .historySeen), (0, false, .historySeen), (0, true, .historySeen),
    ] as [(UInt64, Bool, HistoryRule?)] {
      var next = bench
      if isStored {
        next.note(
          .remembered(UserKey(app: "demo", user: "bob"), 8, .read(upTo: HistoryCursor(7))))
      }
      next.note(told(readUpTo))
      #expect(next.found == rule, "\(readUpTo), \(isStored)")
    }
  }
}
