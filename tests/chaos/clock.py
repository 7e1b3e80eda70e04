"""Virtual time: functions of several runs take turns, one at a time, at moments that follow from the draw alone."""

import heapq
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count


class Gone(BaseException):
    """The draw is over: what still sleeps never wakes. No `except Exception` catches it."""


class Clock:
    """`now` moves to the next moment at which something is due. What is due runs until it sleeps or ends."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []
        self._number = count()
        self._back = threading.Semaphore(0)
        self._asleep: set[threading.Semaphore] = set()
        self._over = False
        self._broke: BaseException | None = None

    def at(self, moment: datetime, what: Callable[[], None]) -> None:
        """`what` may not sleep."""
        heapq.heappush(self._due, (max(moment, self.now), next(self._number), what))

    def start(self, what: Callable[[], None], *, after_s: float = 0) -> None:
        """`what` may sleep."""

        def thread() -> None:
            try:
                what()
            except Gone:
                pass
            except BaseException as error:
                self._broke = error
            self._back.release()

        def begin() -> None:
            threading.Thread(target=thread, daemon=True).start()
            self._back.acquire()

        self.at(self.now + timedelta(seconds=after_s), begin)

    def sleep(self, seconds: float) -> None:
        wakes = self.now + timedelta(seconds=seconds)
        if not self._over and (not self._due or self._due[0][0] > wakes):
            self.now = wakes
            return
        mine = threading.Semaphore(0)
        self._asleep.add(mine)

        def wake() -> None:
            mine.release()
            self._back.acquire()

        self.at(wakes, wake)
        self._back.release()
        mine.acquire()
        self._asleep.discard(mine)
        if self._over:
            raise Gone

    def run(self, until: Callable[[], bool], *, most: timedelta) -> bool:
        """Let time pass. Returns whether `until` became true within `most`; nothing goes on afterwards."""
        last = self.now + most
        while not (done := until()) and self._due and self._due[0][0] <= last:
            self.now, _, what = heapq.heappop(self._due)
            what()
            if self._broke:
                raise self._broke
        return done

    def end(self) -> None:
        """End what still sleeps."""
        self._over = True
        for sleeper in tuple(self._asleep):
            sleeper.release()
            self._back.acquire()
